// The address is the state: which runs are listed, in which order, and which run is open.
//
//   #runs?model=…&status=missed&sort=-time     a list, with names and not places, so it can be sent
//   #run/model,profile,strategy,scenario,trial[/turn]
//   #gain                                      a section; nothing is filtered

const KINDS = ["model", "profile", "strategy", "scenario", "status", "cause", "code", "provider"];
const MISSED = "missed";
// The list that a run was opened from, to go back to.
let lastList = "#runs";

// Half of a surrogate pair has no place in an address.
const wellFormed = (text) => String(text).replace(/\p{Cs}/gu, "\ufffd");
const inAddress = (text) => encodeURIComponent(wellFormed(text));

function addressOf(run, turn) {
  const name = Object.values(keyOf(run)).map(inAddress).join(",");
  return `#run/${name}${turn === undefined ? "" : `/${turn}`}`;
}

// What an address names: {run, turn}, or null. A run may be gone, or not be there yet. Without a
// turn, it opens at the one that decided.
function addressed(hash) {
  const parts = /^#run\/([^/]+)(?:\/(\d+))?$/.exec(hash);
  if (!parts) return null;
  const wanted = `#run/${parts[1]}`;
  const names = parts[1].split(",");
  for (let run = 0; run < runs.cell.length; run++) {
    if (String(runs.trial[run]) === names[4] && addressOf(run) === wanted) {
      return { run, turn: parts[2] === undefined ? null : Number(parts[2]) };
    }
  }
  return { run: -1, turn: null };
}

// The filters in an address, by name; without any, all runs are listed.
function listFrom(hash) {
  const found = new URLSearchParams(/^#runs\?(.*)$/s.exec(hash)?.[1] ?? "");
  const known = [...KINDS, "text", "sort"].filter((kind) => found.has(kind));
  return Object.fromEntries(known.map((kind) => [kind, found.get(kind)]));
}

function listAddress(wanted) {
  const parts = [...KINDS, "text", "sort"]
    .filter((kind) => wanted[kind] !== undefined && wanted[kind] !== "")
    .map((kind) => `${kind}=${inAddress(wanted[kind])}`);
  return parts.length ? `#runs?${parts.join("&")}` : "#runs";
}

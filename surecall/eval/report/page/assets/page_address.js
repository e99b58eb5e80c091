// The address holds the state: filters, order, and the open run.
//
//   #runs?model=…&status=missed&sort=-time     a list, by names so that links can be shared
//   #run/model,profile,strategy,scenario,trial[/turn]
//   #gain                                      a section, without filters

const KINDS = ["model", "profile", "strategy", "scenario", "status", "cause", "code", "provider"];
const MISSED = "missed";
// The list from which the run was opened.
let lastList = "#runs";

// Lone surrogates cannot be encoded in an address.
const wellFormed = (text) => String(text).replace(/\p{Cs}/gu, "\ufffd");
const inAddress = (text) => encodeURIComponent(wellFormed(text));

function addressOf(run, turn) {
  const name = Object.values(keyOf(run)).map(inAddress).join(",");
  return `#run/${name}${turn === undefined ? "" : `/${turn}`}`;
}

// Parses a run address to {run, turn}, or null. An unknown run is -1. Without a turn, the run
// opens at the deciding one.
function parseRunAddress(hash) {
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

// The filters in an address, by name.
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

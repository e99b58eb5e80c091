// Ranks results by kind of page and by how often the words occur, and shows snippets without a
// server. SEARCH_PAGES holds a weight and the text of every page; search_pages.py writes it.
const searchWords = (new URLSearchParams(location.search).get("q") ?? "")
  .toLowerCase().split(/\s+/).filter(Boolean);

const occurrences = (page) => {
  const text = page.html.toLowerCase();
  return searchWords.reduce((sum, word) => sum + text.split(word).length - 1, 0);
};

var Scorer = {
  score: ([name, , , , score]) => {
    const page = SEARCH_PAGES[name];
    return page ? page.weight * (score + 3 * Math.log2(1 + occurrences(page))) : 0;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Sphinx fetches a page to show a snippet of it, which a page opened from a file may not do.
window.fetch = async (address) => {
  const name = address.replace(/^(\.\/)+/, "").replace(/\.html$/, "");
  return new Response(SEARCH_PAGES[name]?.html ?? "");
};

/* Ranks the results of the search: pages with the query's words in their title come first, and
 * pages for users come before decisions and the history. The constants are Sphinx's. */
const QUERY = (new URLSearchParams(location.search).get("q") || "").toLowerCase();
const WORDS = QUERY.split(/\s+/).filter((word) => word);
const FOLDER = /^docs\/(howto|tutorial|migration|reference|explanation)\//;
const BONUS = { howto: 6, tutorial: 6, migration: 6, reference: 3, explanation: -6 };

var Scorer = {
  score: ([page, title, , , score]) => {
    const named = WORDS.filter((word) => title.toLowerCase().includes(word)).length;
    const folder = FOLDER.exec(page);
    return score + (10 * named) / WORDS.length + (folder ? BONUS[folder[1]] : 0);
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

/* SPDX-License-Identifier: MIT */
/* Search over index.js: all words of the query, by how they begin; titles first, then headings. */
'use strict';
(function () {
  const form = document.querySelector('form[role=search]');
  const field = form.querySelector('input');
  const found = document.getElementById('found');
  const article = document.querySelector('article');
  const up = document.body.dataset.up;
  const MOST = 40;

  function begins(text, word) {
    const at = text.indexOf(word);
    return at === 0 || at > 0 && (' ' + text).includes(' ' + word);
  }

  function score(row, words) {
    const title = row[2] ? row[1].toLowerCase() : (row[1] + ' ' + row[0]).toLowerCase();
    const heading = row[2].toLowerCase();
    let sum = 0;
    for (const word of words) {
      if (heading ? heading.includes(word) : title.includes(word)) sum += heading === word ? 30 : 10;
      else if (begins(row[3], word)) sum += 1;
      else if (title.includes(word)) sum += 2;
      else return 0;
    }
    return sum;
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.hidden = words.length === 0;
    article.hidden = !found.hidden;
    if (found.hidden) return;
    const hits = PAGES.map((row) => [score(row, words), row]).filter((hit) => hit[0] > 0);
    hits.sort((a, b) => b[0] - a[0]);
    const list = document.createElement('ul');
    for (const [, row] of hits.slice(0, MOST)) {
      const item = document.createElement('li'), link = document.createElement('a');
      link.href = up + row[0];
      link.textContent = row[2] || row[1];
      link.addEventListener('click', () => { field.value = ''; show(); });
      item.append(link);
      if (row[2]) {
        const where = document.createElement('small');
        where.textContent = row[1];
        item.append(where);
      }
      list.append(item);
    }
    const head = document.createElement('p');
    head.textContent = hits.length === 0 ? 'No page holds these words.'
      : hits.length > MOST ? 'The first ' + MOST + ' of ' + hits.length + ' places'
        : hits.length + (hits.length === 1 ? ' place' : ' places');
    found.replaceChildren(head, list);
  }

  form.hidden = false;
  form.addEventListener('submit', (event) => event.preventDefault());
  field.addEventListener('input', show);
}());

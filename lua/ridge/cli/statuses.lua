-- SPDX-License-Identifier: MIT
--- What the exit status of the program says, for the manual page and the reference.

return {
  { 0, 'done' },
  { 1, 'an error, or wrong usage' },
  { 2, 'some points failed; nothing was within what was asked for' },
  { 3, '--fail-on holds' },
  { 4, 'open with --strict; never quiet with --when-quiet' },
  { 5, 'a rank of several processes waited in vain for another one' },
  { 130, 'interrupted, with everything saved' },
}

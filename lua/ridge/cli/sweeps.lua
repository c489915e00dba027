-- SPDX-License-Identifier: MIT
--- `ridge sweeps`: what sweeps a database has, and how far each is.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'the sweeps of a database, how far each is'
M.usage = 'ridge sweeps [--since yesterday] [--like NAME] [--db FILE] '
  .. '[--as table|csv|json|jsonl|md]'

local SPEC = {
  about = [[
One line a sweep, the newest first: points done of all, the time that is left (h:mm:ss) while it
runs, those that failed by cause, grades, when something last happened, and the version of the
protocol it is measured by (2: in passes).

Of several of a name it says in what each differs from the one before it; the newest note stands
there, where somebody made one.

    ridge sweeps --db results/ridge.db
    ridge sweeps --since yesterday --like mlp]],
  { 'since', '', "those that ended not before: today, yesterday, 12h, 7d, 2026-11-20" },
  { 'like', '', 'those whose name has this in it, or is like it with * and ?' },
  stored.AS,
  stored.DB,
}

--- Print the list.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('sweeps', SPEC, argv, 'read', function(opt, _, st)
    local function given(text) return text ~= '' and text or nil end
    local found = require('ridge.store.sweeps').list(st, { since = given(opt.since),
      like = given(opt.like) })
    stored.show(found, opt)
    if #found.lines == 0 then
      local chosen = given(opt.since) or given(opt.like)
      plain.note(chosen and 'no such sweeps in ' or 'no sweeps in ', st.path, '\n')
    end
  end)
end

return M

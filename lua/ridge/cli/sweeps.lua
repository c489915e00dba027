-- SPDX-License-Identifier: MIT
--- `ridge sweeps`: what sweeps a database has, and how far each is.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'the sweeps of a database, how far each is'
M.usage = 'ridge sweeps [--db FILE] [--as table|csv|json|jsonl|md]'

local SPEC = {
  about = [[
One line a sweep, the newest first: points done of all, the time that is left (h:mm:ss) while it
runs, those that failed by cause, grades, when something last happened, and the version of the
protocol it is measured by (2: in passes).

    ridge sweeps --db results/ridge.db]],
  stored.AS,
  stored.DB,
}

--- Print the list.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('sweeps', SPEC, argv, 'read', function(opt, _, st)
    local found = require('ridge.store.query').sweeps(st)
    stored.show(found, opt)
    if #found.lines == 0 then plain.note('no sweeps in ', st.path, '\n') end
  end)
end

return M

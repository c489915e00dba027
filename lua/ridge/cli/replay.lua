-- SPDX-License-Identifier: MIT
--- `ridge replay TRIAL`: a stored point measured once more by its stored recipe.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'measure a stored point again: ridge replay 17'
M.usage = "ridge replay TRIAL [--db FILE] [-- recipe's own options]"

local SPEC = {
  about = [[
Runs the recipe that the database holds, not the file on the disk, sets the point up in fresh
processes, and says whether the times still agree. Nothing is stored. A recipe is code: replay only
databases that you would run. Of a point of an unlike machine the ratio is one of machines: it is
refused without --mixed.

    ridge replay 17
    ridge replay 17 --db theirs.db -- --quick

Exit status: 0 when it agrees or is faster; 3 when it is slower.]],
  rest = 'TRIAL [-- options of the recipe]', most = 1,
  { 'mixed', false, 'also a point of an unlike machine' },
  stored.DB,
}

local function time(ns)
  if not ns then return '-' end
  return (require('ridge.show.unit').format('ns', ns):gsub('\226\128\175', ' '))
end

local function print_found(found)
  local slower = false
  for _, f in ipairs(found) do
    plain.print(('%-12s then %s [%s .. %s]   now %s [%s .. %s]   %.3fx  %s%s\n'):format(f.phase,
      time(f.before.med), time(f.before.ci_lo), time(f.before.ci_hi), time(f.now.med),
      time(f.now.ci_lo), time(f.now.ci_hi), f.ratio, f.verdict,
      f.verdict ~= 'open' and '' or f.now.grade == 'D'
        and ', this measurement was disturbed (grade D)' or ', one of them has no interval'))
    slower = slower or f.verdict == 'slower'
  end
  return slower and 3 or 0
end

--- Measure again.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  return stored.run('replay', SPEC, ours, 'read', function(opt, rest, st)
    local id, reason = stored.trial(rest[1])
    if not id then return stored.fail('replay', reason) end
    local replay, canonical = require 'ridge.sweep.replay', require 'ridge.store.canonical'
    local trial, words = replay.trial(st, id), canonical.list {}
    for i, word in ipairs(own) do words[i] = word end
    local origin = { name = trial.recipe, source = trial.source, argv = words }
    local sw = require('ridge.cli.remote').sweep_of(origin)
    plain.note(('trial %d of %s, measured on %s%s\n'):format(id, trial.sweep,
      trial.cpu or '?', trial.git and ', commit ' .. trial.git or ''))
    return print_found(replay.run(trial, origin, sw, {
      lab = require('ridge.sweep.device').lab(sw.spec.device), mixed = opt.mixed,
      progress = function(text) plain.note('replay: ', text, '\n') end }))
  end)
end

return M

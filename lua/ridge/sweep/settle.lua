-- SPDX-License-Identifier: MIT
--- The finalists of a sweep timed side by side, until one is left or the time is over.
--
-- Each stands against the best one so far in paired blocks of fresh processes (ridge.sweep.ab);
-- what was compared is kept, whatever ends it.

local ab = require 'ridge.sweep.ab'
local best = require 'ridge.sweep.best'

local M = {}

-- Value of b over that of a where b's time is `ratio` times a's.
local function of_values(goal, found, a, b, ratio)
  if not ratio then return nil end
  local x = best.value_at(goal, a.row, found.a_ns)
  local y = best.value_at(goal, b.row, found.a_ns * ratio)
  return x and y and x ~= 0 and y / x or nil
end

--- How b stands against a, in what is looked for.
---@param goal table   of ridge.sweep.best
---@param found table  of ridge.sweep.ab: ratio (time of b over that of a), ci_lo, ci_hi, verdict,
---  a_ns, margin, aa_fail
---@param a table      candidate
---@param b table      candidate
---@return table pair  ratio, lo, hi (value of b over that of a), word ('better', 'behind',
---  'equal', 'open')
function M.pair(goal, found, a, b)
  local pair = { ratio = of_values(goal, found, a, b, found.ratio), word = 'open' }
  local x = of_values(goal, found, a, b, found.ci_lo)
  local y = of_values(goal, found, a, b, found.ci_hi)
  if not (x and y) then return pair end
  pair.lo, pair.hi = math.min(x, y), math.max(x, y)
  -- values differ by other factors than times where a parameter is part of them: batch / fwd
  local apart = pair.lo > 1 or pair.hi < 1
  local enough = pair.ratio > 0 and math.abs(math.log(pair.ratio)) > found.margin
  if found.verdict == 'equal' and goal.is_plain then
    pair.word = 'equal'
  elseif apart and enough and not found.aa_fail then
    pair.word = (pair.lo > 1) == (goal.better > 0) and 'better' or 'behind'
  end
  return pair
end

--- Time the candidates of a set against each other.
---@param sw table       the sweep that its recipe declares
---@param goal table     of ridge.sweep.best; goal.measured is a phase
---@param set table[]    candidates, best first
---@param params string[] names of the parameters
---@param opt table      seconds, now (function, seconds), and for ridge.sweep.ab origin, db,
---  progress
---@return table found   set (what cannot be told from the first, best first; pair), behind (those
---  that were told apart), pairs (how many were timed), untried (how many had no time left),
---  stopped (the error of Ctrl-C, where that ended it: what was told apart until then holds)
function M.run(sw, goal, set, params, opt)
  local function only(row)
    local out = {}
    for _, name in ipairs(params) do out[name] = row[name] end
    return out
  end
  local ends, first, level = opt.now() + opt.seconds, set[1], {}
  local found = { behind = {}, pairs = 0, untried = 0 }
  local function compare(a, b)
    local ok, result = pcall(ab.run, sw, { a = only(a.row), b = only(b.row), match = {},
      phases = { goal.measured }, origin = opt.origin, db = opt.db, progress = opt.progress,
      check = false, -- points of a sweep compute different things
      protocol = { level = 'quick' } })
    if ok then return result[1] end
    if type(result) ~= 'table' or result.code ~= 'EINTR' then error(result, 0) end
    found.stopped = result
  end
  for i = 2, #set do
    local each = set[i]
    local result = not found.stopped and opt.now() < ends and compare(first, each)
    if not result then
      found.untried, each.pair = found.untried + 1, nil
      level[#level + 1] = each
    else
      found.pairs = found.pairs + 1
      each.pair = M.pair(goal, result, first, each)
      if each.pair.word == 'better' then
        found.behind[#found.behind + 1], first = first, each
        first.pair = nil
        -- what could not be told from the former first may be behind this one: it stays
      elseif each.pair.word == 'behind' then
        found.behind[#found.behind + 1] = each
      else
        level[#level + 1] = each
      end
    end
  end
  found.set = { first }
  for _, each in ipairs(level) do found.set[#found.set + 1] = each end
  return found
end

return M

-- SPDX-License-Identifier: MIT
--- What a sweep found, in three sentences: the points that cannot be told from the best, what the
--- first of them is and what limits it, which parameter matters.

local anchors = require 'ridge.sweep.anchors'
local best = require 'ridge.sweep.best'
local plain = require 'ridge.plain'
local results = require 'ridge.store.results'
local space = require 'ridge.sweep.space'
local unit = require 'ridge.show.unit'
local unlike = require 'ridge.sweep.unlike'
local where = require 'ridge.sweep.where'

local M = {}

--- What is looked for where nobody says it: the first phase, else the first metric with a
--- direction.
---@param directions table of ridge.store.results
---@return string|nil wanted
function M.usual(directions)
  local names = {}
  for name in pairs(directions) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if directions[name .. '_p95'] then return 'min ' .. name end
  end
  for _, name in ipairs(names) do
    if directions[name] ~= 0 then return name end
  end
  return nil
end

-- What is said where no point has a result: those that failed are not only not measured yet, and
-- what cannot exist has not failed.
local WAITS = { pending = true, running = true, ok = true, pruned = true, cancelled = true,
  infeasible = true }
local function without_results(source)
  local failed, n = 0, source.n
  local states = source:counts()
  local void = states.infeasible or 0
  for state, count in pairs(states) do
    if not WAITS[state] then failed = failed + count end
  end
  if void > 0 and void + failed == n then
    return ('Nothing is measured: %d of %s cannot exist%s. Why stands under Failures.'):format(void,
      plain.count(n, 'point'), failed > 0 and (', %d failed'):format(failed) or '')
  end
  if failed == 0 then return 'Nothing of this sweep is measured yet.' end
  if failed < n then
    return ('Nothing of this sweep is measured yet; %d of %d points failed.'):format(failed, n)
  end
  return ('%s failed: nothing is measured. Why stands under Failures.'):format(
    n == 1 and 'The only point' or ('All %d points'):format(n))
end

-- Where nothing says which way is better: nothing is measured, or nobody said.
local function without_goal(source, directions)
  local names = {}
  for name in pairs(directions) do names[#names + 1] = name end
  if #names == 0 then return without_results(source) end
  table.sort(names)
  return ('Which point is best is not known: nobody said which way %s is better.'):format(
    #names == 1 and names[1] or 'any of ' .. table.concat(names, ', '))
end

--- The answer of a stored sweep.
---@param st table store
---@param sweep table id, name
---@param source table of ridge.report.source
---@param wanted string|nil 'max rows_per_s'; the first phase when left out
---@return table answer sentences; goal, found, effects (of ridge.sweep.best, nil where nothing is
---  measured),
---  show (a value of the goal as text)
function M.of(st, sweep, source, wanted)
  local directions, given = results.directions(st, sweep.id), wanted
  wanted = given or M.usual(directions)
  if not wanted then return { sentences = { without_goal(source, directions) } } end
  local known, goal = pcall(source.goal, source, wanted, directions, 'the sweep ' .. sweep.name)
  if not known then
    if given then error(goal, 0) end -- what nobody asked for is no error
    return { sentences = { ('Which point is best is not known: %s has no value that can be '
      .. 'compared.'):format(wanted:gsub('^min ', '')) } }
  end
  local kinds = unlike.kinds(st, { sweep })
  if #kinds > 0 then
    local apart = anchors.text(st, { sweep }, kinds):gsub('^%l', string.upper)
    return { sentences = { ('Which point is best is not said: they are of unlike machines, %s.')
      :format(unlike.text(kinds)), apart .. '.',
      ('"ridge best %s" says it of one machine, with --where.'):format(
      sweep.name) } }
  end
  local is_time = goal.is_plain and directions[goal.measured .. '_p95'] ~= nil
  local function show(v)
    return is_time and unit.format('ns', v) or ('%.4g'):format(v)
  end
  local params = results.params(st, sweep.id)
  local found, effects = source:answer(goal, params)
  local said = { goal = goal, found = found, effects = effects, show = show, sentences = {} }
  local function say(text, ...) said.sentences[#said.sentences + 1] = text:format(...) end
  local n, way = found.n, goal.better > 0 and 'most' or 'least'
  if n == 0 then
    say('No point has %s yet.', goal.text)
    return said
  end
  local first = found.set[1]
  if found.disturbed then
    if n == 1 then
      say('The only point with %s is of grade D: others used the machine, or it was not steady.',
        goal.text)
      say('It is not called the best; it was measured as %s.', show(first.v))
    else
      say('All %d points with %s are of grade D: others used the machine, or it was not steady.',
        n, goal.text)
      say('None of them is called the best; they lie between %s and %s.', show(first.v),
        show(found.last.v))
    end
    say('On a quiet machine "ridge retry %s --grade D" and the sweep again measure %s.', sweep.name,
      n == 1 and 'it' or 'them')
    return said
  end
  local label = {}
  for _, name in ipairs(params) do label[name] = first.row[name] end
  local others = n > 1 and ('; %d other of %d points cannot be told from it'):format(n - 1,
    n + found.behind)
    or found.behind == 1 and '; the other one is told apart from it'
    or found.behind > 0 and ('; each of %d others is told apart from it'):format(found.behind)
    or ''
  say('The %s %s is %s, at %s%s.', way, goal.text,
    first.lo and ('%s (%s to %s)'):format(show(first.v), show(first.lo), show(first.hi))
    or show(first.v), space.label(label), others)
  local limit, share
  if goal.measured and directions[goal.measured .. '_p95'] then
    limit, share = best.limit(first.row, goal.measured, where.machines(st)(first.row.trial))
  end
  if limit and share > 1 then
    say('Its limit is not known: it takes %.0f %% of the time that the ceilings allow, so they '
      .. 'were measured while others used the machine, or operations are counted wrongly.',
      100 / share)
  elseif limit then
    say('It is limited by %s and reaches %.0f %% of that roof.', limit, 100 * share)
  else
    say 'What limits it is not known: no cost or no ceilings are stored.'
  end
  local effect = effects[1]
  if effect then
    say('%s matters most: its values differ by %s%.3g, and %s is the best of them.', effect.name,
      effect.is_difference and '' or 'a factor of ', effect.reach,
      type(effect.best) == 'number' and ('%.6g'):format(effect.best) or tostring(effect.best))
  end
  return said
end

return M

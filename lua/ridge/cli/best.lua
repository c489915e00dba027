-- SPDX-License-Identifier: MIT
--- `ridge best`: the points of a sweep that cannot be told from the best one, what limits them,
--- which parameter matters, and what would decide.

local plain = require 'ridge.plain'
local ratio = require 'ridge.show.ratio'
local stored = require 'ridge.cli.stored'
local unlike = require 'ridge.sweep.unlike'
local verdicts = require 'ridge.cli.verdicts'

local M = {}

M.summary = "what cannot be told from the best: ridge best widths --for 'max batch / fwd'"
M.usage = "ridge best SWEEP [--for 'max NAME'] [--where CONDITION] [--settle 5m]"

local SPEC = {
  about = [[
The best points by one column or an expression, as a set: all that the measurement cannot tell from
the first, pass by pass where points have passes, else by their intervals. On a busy machine the
set is larger. Beside each what limits it and its share of that roof; below, which parameter
matters and the command that would decide. Points of grade D have no say; where all are D they are
listed without an order.

    ridge best widths --for 'max batch / fwd' --where 'fwd < 1ms'
    ridge best widths --for 'min fwd' --settle 5m

--settle times the set side by side in fresh processes, each against the best so far.]],
  rest = 'SWEEP [-- recipe arguments]',
  { 'for', '', "'max rows_per_s', 'min fwd', 'max batch / fwd'; the only measure when left out" },
  { 'where', '', 'condition on parameters and results; times in ns' },
  { 'settle', '', 'pair the points of the set for so long: 90s, 5m' },
  { 'n', 20, 'points that are listed', integer = true, min = 1, short = 'n' },
  { 'mixed', false, 'also points of unlike machines, as if they were of one' },
  stored.AS,
  stored.DB,
}

-- -- Printing ---------------------------------------------------------------------------------

local function is_time(goal, directions)
  return goal.is_plain and directions[goal.measured .. '_p95'] ~= nil
end

-- The table: parameters, value with interval, its ratio to the first, what limits it.
local function lines_of(found, goal, params, more, n)
  local titles, units, lines = { 'trial' }, {}, {}
  local function column(title, unit)
    titles[#titles + 1] = title
    units[#titles] = unit
    return #titles
  end
  for _, name in ipairs(params) do column(name) end
  local unit = more.is_time and 'ns' or nil
  local at = column(goal.text, unit)
  local lo, hi = column('lo', unit), column('hi', unit)
  local against, limit, of_roof = column 'to the first', column 'limit', column 'of roof'
  local grade = column 'grade'
  for i = 1, math.min(n, #found.set) do
    local each = found.set[i]
    local line = { each.row.trial }
    for k, name in ipairs(params) do line[1 + k] = each.row[name] end
    line[at], line[lo], line[hi] = each.v, each.lo, each.hi
    if each.pair and each.pair.lo then
      line[against] = ratio.range(each.pair.lo, each.pair.hi)
    end
    local name, share = more.limit(each.row)
    line[limit], line[of_roof] = name, share and ('%.0f %%'):format(100 * share)
    line[grade] = each.row.grade
    lines[i] = line
  end
  return { titles = titles, units = units, lines = lines }
end

local function value_text(v, more)
  return more.is_time and verdicts.time(v) or ('%.4g'):format(v)
end

-- How far the set reaches: its last value beside the first.
local function coarse(found, more)
  local first, last = found.set[1], found.last
  local from, to = value_text(first.v, more), value_text(last.v, more)
  return from == to and 'all ' .. from or from .. ' to ' .. to
end

local function head(found, goal, name, more)
  local n, way = found.n, goal.better > 0 and 'most' or 'least'
  local all = n + found.behind
  if n == 0 and more.where then
    return ('no measured point of %s has %s where %s\n'):format(name, goal.text, more.where)
  elseif n == 0 then
    return ('%s has no point with %s yet\n'):format(name, goal.text)
  end
  if found.disturbed then
    return n == 1 and ('the only point of %s is of grade D, disturbed: nothing is decided\n')
      :format(name) or ('all %d points of %s are of grade D, disturbed: none of them is decided\n')
      :format(n, name)
  elseif n == 1 then
    return (all == 1 and '%s %s: there is one point\n' or '%s %s: one point of %d is the best\n')
      :format(way, goal.text, all)
  end
  return ('%s %s: %d of %d points cannot be told apart, %s\n'):format(way, goal.text, n, all,
    coarse(found, more))
end

-- Sentences are part of the answer where a table is; beside CSV or JSON they are notes.
local function say(opt, text)
  if opt.as == 'table' then plain.print(text) else plain.note(text) end
end

local function notes(found, shown, effects, more, opt)
  local function note(text, ...) say(opt, text:format(...) .. '\n') end
  if found.n > shown then
    note('%d more of the set: %s', found.n - shown, found.n == #found.set
      and ('-n %d shows all'):format(found.n) or '--where asks for fewer')
  end
  if found.left_out > 0 then
    note('%s of grade D left out', plain.count(found.left_out, 'point'))
  end
  if found.without > 0 then
    note('%s without a value', plain.count(found.without, 'measured point'))
  end
  if found.open > 0 then note('%s not measured', plain.count(found.open, 'point')) end
  local parts = {}
  for i, effect in ipairs(effects) do
    if i > 3 then break end
    parts[i] = ('%s %s%.3g (best %s)'):format(effect.name, effect.is_difference and 'by ' or 'x',
      effect.reach,
      type(effect.best) == 'number' and ('%.6g'):format(effect.best) or tostring(effect.best))
  end
  if #parts > 0 then
    note('what matters, between medians over all others: %s', table.concat(parts, ', '))
  end
  local above = 0
  for i = 1, shown do
    local _, share = more.limit(found.set[i].row)
    if share and share > 1 then above = above + 1 end
  end
  if above > 0 then
    note('%s above 100 %% of a roof: its ceilings were measured while others used the machine, or '
      .. 'operations are counted wrongly (ridge calibrate measures them again)',
      plain.count(above, 'point'))
  end
  if more.has_no_roofs then note 'no roofs: the machine was not calibrated (ridge calibrate)' end
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- What would make the set smaller.
local function next_step(found, goal, name, opt)
  local db = opt.db ~= '' and ' --db ' .. quoted(opt.db) or ''
  if found.disturbed then
    say(opt, ('on a quiet machine: ridge retry %s --grade D%s, then the sweep again\n'):format(name,
      db))
  elseif found.n > 1 and goal.is_phase then
    say(opt, ("to decide: ridge best %s --for %s%s --settle %s%s\n"):format(name,
      quoted((goal.better > 0 and 'max ' or 'min ') .. goal.text),
      opt.where ~= '' and ' --where ' .. quoted(opt.where) or '',
      found.n > 8 and '15m' or '5m', db))
  end
end

-- -- The command ------------------------------------------------------------------------------

local function settle(seconds, name, argv, path, goal, found, params)
  local origins = require 'ridge.cli.origin'
  local origin = origins.of_sweep(name, argv, path)
  local sw = require('ridge.cli.remote').sweep_of(origin)
  -- points are those that are stored: values that -P gave are no other recipe
  local same, differs = origins.agrees(sw, origin, true)
  if not same then return nil, differs end
  local clock = require 'ridge.measure.native'
  local now = clock.services().now
  local result = require('ridge.sweep.settle').run(sw, goal, found.set, params, {
    seconds = seconds,
    now = function() return tonumber(now()) / 1e9 end,
    origin = origins.sent(origin), db = path,
    progress = function(text) plain.note(text, '\n') end })
  found.set, found.behind = result.set, found.behind + #result.behind
  found.n, found.last = #result.set, result.set[#result.set]
  plain.note(('%s timed side by side, %d told apart%s\n'):format(
    plain.count(result.pairs, 'pair'), #result.behind,
    result.stopped and (', stopped before %d'):format(result.untried)
    or result.untried > 0 and (', no time left for %d'):format(result.untried) or ''))
  return true, result.stopped
end

--- Print the set.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('best', SPEC, argv, nil, function(opt, rest)
    local name = table.remove(rest, 1)
    if not name then return stored.fail('best', 'a sweep is missing; ridge sweeps lists them') end
    if #rest > 0 and opt.settle == '' then
      return stored.fail('best', ("'%s' is too much; arguments of the recipe are for "
        .. '--settle'):format(rest[1]))
    end
    local best, store = require 'ridge.sweep.best', require 'ridge.store'
    local expression, results = require 'ridge.store.expression', require 'ridge.store.results'
    local path = opt.db ~= '' and opt.db or store.default_path()
    local seconds = opt.settle ~= '' and require('ridge.sweep.part').seconds(opt.settle,
      '--settle')
    local condition = opt.where ~= '' and expression.parse(opt.where)
    local goal, found, params, more, effects, told
    store.with(path, 'read', function(st)
      local sweep = require('ridge.store.query').sweep(st, name)
      name = sweep.name
      local what = 'the sweep ' .. name
      local by_machine = unlike.named(opt.where)
      told = opt.mixed and unlike.told(st, { sweep })
      if not opt.mixed and not by_machine then
        unlike.refuse(st, { sweep }, 'best',
          "--where 'machine = \"m...\"' asks for one, --mixed for all")
      end
      local directions = results.directions(st, sweep.id)
      params = results.params(st, sweep.id)
      local answer = { text = opt['for'], condition = condition, params = params,
        directions = directions, what = what, whole = seconds and true, origins = by_machine }
      goal, found, effects = require('ridge.sweep.front').answer(st, sweep, answer)
      goal.is_phase = goal.measured ~= nil and directions[goal.measured .. '_p95'] ~= nil
      local where = require 'ridge.sweep.where'
      local machine, of, limits = where.machine(st, sweep), where.machines(st), {}
      -- settling changes the order: any point of the set may be shown
      for i = 1, goal.is_phase and (seconds and #found.set or math.min(opt.n, #found.set)) or 0 do
        local row = found.set[i].row
        limits[row] = { best.limit(row, goal.measured, of(row.trial)) }
      end
      more = { is_time = is_time(goal, directions), where = condition and opt.where,
        has_no_roofs = goal.is_phase and next(machine.ceilings) == nil,
        limit = function(row) return unpack(limits[row] or {}, 1, 2) end }
    end)
    local stopped
    if seconds then
      if not goal.is_phase then
        return stored.fail('best', ("--settle times phases, and %s is none; write '%s batch / fwd' "
          .. 'or the like'):format(goal.text, goal.better > 0 and 'max' or 'min'))
      elseif found.n > 1 and not found.disturbed then
        local ok, what = settle(seconds, name, rest, path, goal, found, params)
        if not ok then return stored.fail('best', what) end
        stopped = what
      end
    end
    if told then plain.note(told, '\n') end
    say(opt, head(found, goal, name, more))
    stored.show(lines_of(found, goal, params, more, opt.n), opt)
    notes(found, math.min(opt.n, #found.set), effects, more, opt)
    if not seconds or found.disturbed then next_step(found, goal, name, opt) end
    if stopped then error(stopped, 0) end -- Ctrl-C has its status
  end)
end

return M

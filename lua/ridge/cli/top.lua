-- SPDX-License-Identifier: MIT
--- `ridge top`: the best points of a sweep.

local stored = require 'ridge.cli.stored'
local minutes = require 'ridge.measure.minutes'
local plain = require 'ridge.plain'
local unlike = require 'ridge.sweep.unlike'

local M = {}

M.summary = 'the best points of a sweep: ridge top widths --by fwd.gflops'
M.usage = 'ridge top SWEEP --by NAME [-n 10] [options]'

local SPEC = {
  about = [[
The best points by a phase or metric, best first. A point whose interval reaches that of the first
is undecided against it; on a busy machine there are more of those. Points of grade D have no say,
unless there are no others: then nothing is decided. --disturbed shows them in their place. Times
are medians over all passes, what a user gets on this machine as it is; with --quiet those of its
fast state.

    ridge top widths --by fwd.gflops -n 10 --where 'dtype = "f32"']],
  rest = 'SWEEP', most = 1,
  { 'by', '', 'phase or metric; the only phase when left out' },
  { 'n', 10, 'how many', integer = true, min = 1, short = 'n' },
  { 'where', '', 'condition on parameters and results' },
  { 'disturbed', false, 'points of grade D too, in their place; they decide nothing' },
  { 'quiet', false, "by the time in the machine's fast state, where three passes saw it" },
  { 'mixed', false, 'also points of unlike machines, as if they were of one' },
  stored.AS,
  stored.DB,
}

-- Which way is better, as whoever measured it said; times: less.
local function direction(st, sweep, by)
  local results = require 'ridge.store.results'
  local known = results.directions(st, sweep.id)
  if by == '' then
    local phases = {}
    for name in pairs(known) do
      if known[name .. '_lo'] and known[name .. '_p95'] then phases[#phases + 1] = name end
    end
    by = #phases == 1 and phases[1] or by
  end
  by = by:gsub('%.', '_')
  if results.is_predicted(st, sweep.id, by) then
    require('ridge.blame').raise(('%s was predicted by a model, not measured: it has no rank')
      :format(by), 'EARG')
  end
  if known[by] and known[by] ~= 0 then return by, known[by] end
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  local text
  if by == '' then
    local list = require('ridge.sweep.best').measures(known)
    text = ('--by NAME is missing; the sweep %s has %s'):format(sweep.name,
      #list > 0 and table.concat(list, ', ') or 'no measured point yet')
  elseif known[by] then
    text = ("nobody said which way %s is better; ridge best %s --for 'max %s' does"):format(by,
      sweep.name, by)
  else
    local is_there = require('ridge.store.query').has(st, sweep, by) -- a text, a number of a trial
    text = (is_there and ('nobody said which way %s is better'):format(by)
      or ('the sweep %s has no %s'):format(sweep.name, by)) .. require('ridge.near').hint(by, names)
  end
  require('ridge.blame').raise(text, 'EARG')
end

-- The points that have a say, best first; where there are none, all of them.  What has no value has
-- no place among those that have one.
local function choose(found, value, with_disturbed)
  local all, lines, n_clear = {}, {}, 0
  for _, line in ipairs(found.lines) do
    if line[value] ~= nil then
      all[#all + 1] = line
      -- what was not timed has no grade
      local clear = line[#found.titles] ~= 'D'
      n_clear = n_clear + (clear and 1 or 0)
      if clear or with_disturbed then lines[#lines + 1] = line end
    end
  end
  local disturbed = n_clear == 0 and #all > 0
  return { titles = found.titles, units = found.units, lines = disturbed and all or lines,
           disturbed = disturbed, without = #found.lines - #all }
end

-- Where one column stands among the titles.
local function place(columns, name)
  for i, column in ipairs(columns) do
    if column == name then return i end
  end
end

-- The ends of a line without what other minutes differ by: these points were measured in the same.
local function own(columns, line, by)
  local row = {}
  for i, name in ipairs(columns) do row[name] = line[i] end
  return minutes.ends(row, by)
end

-- Take the column of that out again; the most of it that an interval holds.
local function without_minutes(chosen, columns, by)
  local at, most = place(columns, minutes.column(by)), 0
  if not at then return most end
  table.remove(chosen.titles, at)
  table.remove(chosen.units or {}, at)
  for _, line in ipairs(chosen.lines) do
    most = math.max(most, line[at] or 0)
    for i = at, #chosen.titles do line[i] = line[i + 1] end
    line[#chosen.titles + 1] = nil
  end
  return most
end

-- How each point stands against the first that is not disturbed: 'best', 'undecided', 'behind', and
-- 'disturbed' of those shown among the rest; nothing without intervals.  Returns how many are
-- undecided against it, and the line of the last of them.
local function stand(chosen, columns, by, better)
  if not (place(columns, by .. '_lo') and chosen.lines[1]) then return 0, 0 end
  local grade = place(columns, 'grade')
  local n, last, words, first = 0, 0, {}, nil
  for i, line in ipairs(chosen.lines) do
    if line[grade] == 'D' and not chosen.disturbed then
      words[i] = 'disturbed'
    else
      local apart = false
      if first and not chosen.disturbed then
        local a_lo, a_hi = own(columns, chosen.lines[first], by)
        local b_lo, b_hi = own(columns, line, by)
        if a_lo and a_hi and b_lo and b_hi then
          apart = better > 0 and b_hi < a_lo or better < 0 and b_lo > a_hi
        end
      end
      words[i] = apart and 'behind' or 'undecided'
      if first and not apart then n, last = n + 1, i end
      first = first or i
    end
  end
  if n == 0 and not chosen.disturbed then words[first] = 'best' end
  chosen.titles[#chosen.titles + 1] = 'standing'
  for i, line in ipairs(chosen.lines) do line[#chosen.titles] = words[i] end
  return n, last
end

-- Which of its two times a phase is ranked by, as words; nil for what is no time.
local function time_of(known, by, is_quiet)
  local phase = by:match '^(.*)_quiet$' or by
  if not (known[phase .. '_lo'] and known[phase .. '_quiet']) then
    if is_quiet then
      require('ridge.blame').raise(('--quiet: %s is no time of a phase'):format(by), 'EARG')
    end
    return by
  end
  if not is_quiet and by == phase then return by, by .. ': the median, the machine as it is' end
  return phase .. '_quiet', phase .. "_quiet: the time in the machine's fast state"
end

-- The columns of an interval, each its name and what is asked for: of a rate of a phase those of
-- its time, whose reciprocals are its own.
local function ends_of(st, sweep, by)
  local query, out = require 'ridge.store.query', {}
  local phase, time = minutes.rate(by), by
  if phase and not query.has(st, sweep, by .. '_lo') and query.has(st, sweep, phase .. '_p95') then
    time = phase
  end
  if not query.has(st, sweep, time .. '_lo') then return out end
  out[1], out[2] = { by .. '_lo', by .. '_lo' }, { by .. '_hi', by .. '_hi' }
  if time ~= by then
    out[1][2] = ('%s * %s / %s_hi'):format(by, time, time)
    out[2][2] = ('%s * %s / %s_lo'):format(by, time, time)
  end
  if query.has(st, sweep, minutes.column(time)) then
    out[3] = { minutes.column(by), minutes.column(time) }
  end
  return out
end

--- Print the best points.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('top', SPEC, argv, 'read', function(opt, rest, st)
    local query = require 'ridge.store.query'
    if not rest[1] then
      return stored.fail('top', 'a sweep is missing; ridge sweeps lists them')
    end
    local sweep = query.sweep(st, rest[1])
    if not opt.mixed and not unlike.named(opt.where) then
      unlike.refuse(st, { sweep }, 'top',
        "--where 'machine = \"m...\"' asks for one, --mixed for all")
    end
    local told = opt.mixed and unlike.told(st, { sweep })
    if told then plain.note(told, '\n') end
    local by, better = direction(st, sweep, opt.by)
    local which
    by, which = time_of(require('ridge.store.results').directions(st, sweep.id), by, opt.quiet)
    local params = require('ridge.store.results').params(st, sweep.id)
    local columns = { 'trial' }
    for _, name in ipairs(params) do columns[#columns + 1] = name end
    columns[#columns + 1] = by
    local asked = { unpack(columns) }
    for _, each in ipairs(ends_of(st, sweep, by)) do
      columns[#columns + 1], asked[#asked + 1] = each[1], each[2]
    end
    columns[#columns + 1], asked[#asked + 1] = 'grade', 'grade'
    -- alone first: what is wrong in it is said of what was typed, and brackets stay in it
    if opt.where ~= '' then require('ridge.store.expression').parse(opt.where) end
    -- the fast state of some points was not seen: they have no place among those of others
    local seen = by:find '_quiet$' and (' and %s > 0'):format(by) or ''
    local where = ("state = 'ok'%s%s"):format(seen,
      opt.where ~= '' and (' and (%s)'):format(opt.where) or '')
    local found = query.ask(st, sweep.name, { columns = table.concat(asked, ', '), where = where,
      sort = (better > 0 and '-' or '') .. by })
    for i, name in ipairs(asked) do
      if name ~= columns[i] then found.titles[i] = columns[i] end
    end
    local chosen = choose(found, place(columns, by), opt.disturbed)
    local undecided, last = stand(chosen, columns, by, better)
    local most = without_minutes(chosen, columns, by)
    local kept = {}
    for i = 1, math.min(opt.n, #chosen.lines) do kept[i] = chosen.lines[i] end
    local n = #chosen.lines
    chosen.lines = kept
    stored.show(chosen, opt)
    if which then plain.note(('by %s\n'):format(which)) end
    if most > 0 then
      plain.note(('intervals hold up to %s for what other minutes differ by; standing does not ask '
        .. 'for it\n'):format(minutes.percent(most)))
    end
    if chosen.without > 0 then
      plain.note(('%s without %s\n'):format(plain.count(chosen.without, 'point'), by))
    end
    if chosen.disturbed then
      plain.note(n == 1 and 'the only point is of grade D, disturbed: nothing is decided\n'
        or ('all %d points are of grade D, disturbed: none of them is decided\n'):format(n))
    elseif last > opt.n then
      plain.note(('%s undecided against the first; -n %d shows %s\n'):format(
        undecided == 1 and '1 point is' or undecided .. ' points are', last,
        undecided == 1 and 'it' or 'them'))
    end
  end)
end

return M

-- SPDX-License-Identifier: MIT
--- The reference of what is stored: columns, tables and views, flags and grades.

local flags = require 'ridge.measure.flags'
local functions = require 'ridge.docs.functions'
local pages = require 'ridge.docs.pages'
local schema = require 'ridge.store.schema'

local M = {}

--- What each column is that every sweep has, the small print of a phase, and what says where a
--- point was measured; by the names that ridge.store.schema has.
M.DOES = {
  fixed = {
    trial = 'number of the point: `ridge show` takes it', role = 'point, anchor, refine or aa',
    rep = 'which replicate of an anchor', state = 'ok, pending, running, infeasible, oom, timeout, '
      .. 'error, crashed, pruned, implied or cancelled', grade = 'A, B, C or D: see flags',
    flags = 'what was wrong, by name', reason = 'what a failed point said',
    tries = 'attempts so far', began = 'when its best attempt began: microseconds since 1970',
    reused = '1 where it was measured for another sweep of the same recipe',
    implied_by = 'the point whose failure says that this one would fail too',
    passes = 'passes behind its result', partner = 'the point that was timed beside it',
  },
  phase = {
    [''] = 'the median, in ns', _lo = 'lower end of its interval', _hi = 'upper end',
    _min = 'least sample', _p25 = 'a quarter is below', _p75 = 'three quarters are below',
    _p95 = '95 % are below', _p99 = '99 % are below', _max = 'largest sample', _mean = 'mean',
    _sd = 'standard deviation', _mad = 'median distance from the median', _n = 'samples',
    _grade = 'of this phase alone', _flags = 'of this phase alone',
    _quiet = 'in the fast state of the machine, where three passes saw it',
    _quiet_lo = 'lower end of its interval', _quiet_hi = 'upper end',
    _ratio = 'over the time of its partner, formed in each pass', _ratio_lo = 'lower end of its '
      .. 'interval', _ratio_hi = 'upper end', _passes = 'passes behind it', _procs = 'processes',
    _between = 'standard deviation of the logarithm between passes',
    _within = 'the same between windows of a pass',
    _between_minutes = 'the same between minutes that the passes have not seen: part of `_lo`, '
      .. '`_hi` and of those of `_quiet`; nothing within the sweep asks for it. 0: they have seen '
      .. 'ten minutes; none: not known',
  },
  origin = {
    machine = 'which machine: m and part of its fingerprint', cpu = 'its processor',
    commit = 'the commit that ridge was built of', host = 'its name in the network',
    date = 'day of the best attempt, 2026-11-26', sweep = 'name of the sweep',
  },
}

local function rows_of(names, does, prefix)
  local rows = {}
  for i, name in ipairs(names) do
    rows[i] = { '`' .. prefix .. name .. '`', assert(does[name], 'no text for column ' .. name) }
  end
  return rows
end

local function columns()
  local lines, ends = {}, {}
  for i, column in ipairs(schema.PHASE_COLUMNS) do ends[i] = column[1] end
  lines[#lines + 1] = '## Parameters, phases and metrics\n\nA parameter of the space is a column '
    .. 'of its name. What a recipe times as `fwd` is the columns below; what it records as a '
    .. 'metric is `fwd.gflops`, in SQL `fwd_gflops`.\n'
  functions.table(lines, { 'column', 'what' }, rows_of(ends, M.DOES.phase, 'fwd'))
  lines[#lines + 1] = '## Columns that every sweep has\n'
  functions.table(lines, { 'column', 'what' }, rows_of(schema.FIXED, M.DOES.fixed, ''))
  lines[#lines + 1] = '## Where and when\n\nFor `ridge query` and pictures; a parameter of such a '
    .. 'name hides them.\n'
  functions.table(lines, { 'column', 'what' }, rows_of(schema.ORIGIN, M.DOES.origin, ''))
  return pages.page('reference/columns', '# Columns\n\nWhat `ridge query`, `top`, `best`, `export` '
    .. 'and pictures know of a point. Times are in nanoseconds.\n\n' .. table.concat(lines, '\n'))
end

local function grades()
  local lines, by = {}, {}
  for _, name in ipairs(flags.names()) do
    local flag = flags.describe(name)
    by[#by + 1] = { '`' .. name .. '`', flag.grade, flag.text }
  end
  lines[#lines + 1] = '## Grades\n'
  functions.table(lines, { 'grade', 'what' }, { { 'A', 'precise and clean' },
    { 'B', 'a peculiar distribution' }, { 'C', 'not to be leaned on' },
    { 'D', 'not to be trusted: stored and shown, and part of no verdict' } })
  lines[#lines + 1] = '## Flags\n\nThe grade is what a flag makes of a point that is otherwise '
    .. 'clean. Of points measured in passes a flag counts that was there in half of the passes.\n'
  functions.table(lines, { 'flag', 'grade', 'what' }, by)
  local limits, names, rows = flags.thresholds(), {}, {}
  for name in pairs(limits) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do rows[i] = { '`' .. name .. '`', tostring(limits[name]) } end
  lines[#lines + 1] = '## Limits\n\nShares, on every machine the same: '
    .. '`ridge.measure.flags.thresholds()`.\n'
  functions.table(lines, { 'limit', 'value' }, rows)
  return pages.page('reference/flags', '# Flags and grades\n\nWhat is wrong with a measurement, '
    .. 'and the grade that follows. A flag never changes a number and never drops a sample.\n\n'
    .. table.concat(lines, '\n'))
end

local function tables()
  local lines = {}
  for name, body in schema.TABLES:gmatch 'CREATE TABLE (%w+)(%b())' do
    local whole = schema.TABLES:match('(CREATE TABLE ' .. name .. '%b()[^;]*;)')
    lines[#lines + 1] = ('## %s\n\n```sql\n%s\n```\n'):format(name, whole or body)
  end
  lines[#lines + 1] = '## result\n\nA view: a row for each point, phase and cache.\n\n```sql\n'
    .. schema.RESULT:gsub('%s+$', '') .. '\n```\n'
  return pages.page('reference/tables', ('# Tables of a results database\n\nVersion %d, SQLite. '
    .. 'Read the view `result`, and the view that each sweep is under its own name (NAME-points '
    .. 'where a table, or a sweep in another case, has that name); columns are added to views and '
    .. 'never taken away. Tables may change with the version. Times of day are '
    .. 'microseconds since 1970, durations nanoseconds.\n\n'):format(schema.VERSION)
    .. table.concat(lines, '\n'))
end

--- The pages.
---@return ridge.docs.Page[] pages
function M.pages() return { columns(), grades(), tables() } end

return M

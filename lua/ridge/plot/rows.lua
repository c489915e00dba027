-- SPDX-License-Identifier: MIT
--
-- Rows, one for each trial, as pictures see them: checked, selected, counted, compared.
--
-- Everything on a figure comes from here: values with their intervals, which cells are missing and
-- why, how many trials have which grade, and the sentence that says who won where.

local blame = require 'ridge.blame'
local column = require 'ridge.plot.column'
local minutes = require 'ridge.show.minutes'
local ratio = require 'ridge.show.ratio'
local unit = require 'ridge.show.unit'

local M = {}

--- Why a cell can be without a value; the order is that of legends and captions.
M.CAUSES = { 'oom', 'timeout', 'error', 'crashed', 'infeasible', 'implied', 'pending', 'running',
  'no_interval', 'unseen', 'missing' }

--- Each cause as words for a legend.
M.CAUSE_WORDS = {
  oom = 'out of memory', timeout = 'timed out', error = 'failed', crashed = 'crashed',
  infeasible = 'infeasible', implied = 'implied by a neighbour', pending = 'not measured yet',
  running = 'being measured', no_interval = 'without an interval',
  unseen = 'fast state not seen', missing = 'not in the sweep',
}

local function finite(v)
  return v == v and v < math.huge and v > -math.huge
end

--- Did the trial produce a value? (Rows without a state count as measured.)
---@param row table
---@return boolean ok
function M.measured(row)
  return row.state == nil or row.state == 'ok'
end

--- May the row decide anything? What was disturbed (grade D) is shown, and part of no verdict.
---@param row table
---@return boolean counts
function M.counts(row)
  return M.measured(row) and row.grade ~= 'D'
end

--- Raise unless there are rows, and each is a table.
---@param rows any
---@param who string function that asks, for the message
function M.check(rows, who)
  if type(rows) ~= 'table' then
    blame.raise(('%s: rows must be an array of tables, not %s'):format(who, type(rows)), 'EARG')
  end
  if #rows == 0 then blame.raise(who .. ': there are no rows to draw', 'EARG') end
  for i = 1, #rows do
    if type(rows[i]) ~= 'table' then
      blame.raise(('%s: row %d is %s; a row is a table of columns'):format(who, i,
        blame.show(rows[i])), 'EARG')
    end
  end
end

--- Raise unless a column holds finite numbers wherever the trial was measured.
---@param rows table
---@param name string
---@param who string
---@param needed boolean|nil must every measured row have it?
function M.check_numbers(rows, name, who, needed)
  column.require(rows, name, who)
  for i, row in ipairs(rows) do
    local v = row[name]
    if v ~= nil and type(v) ~= 'number' then
      blame.raise(("%s: row %d has %s = '%s', which is not a number"):format(who, i, name,
        tostring(v)), 'EARG')
    end
    if v ~= nil and M.measured(row) and not finite(v) then
      blame.raise(('%s: row %d has %s = %s; a measured value must be finite'):format(who, i, name,
        tostring(v)), 'EARG')
    end
    if v == nil and needed and M.measured(row) then
      blame.raise(('%s: row %d is measured but has no %s'):format(who, i, name), 'EARG')
    end
  end
end

--- The rows for which all given columns have the given value.
---@param rows table
---@param where table column -> value
---@return table rows
function M.select(rows, where)
  local out = {}
  for _, row in ipairs(rows) do
    local keep = true
    for name, value in pairs(where) do
      if row[name] ~= value then keep = false break end
    end
    if keep then out[#out + 1] = row end
  end
  return out
end

-- Numbers first, then words, then false and true.
local KIND = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local x, y = KIND[type(a)] or 4, KIND[type(b)] or 4
  if x ~= y then return x < y end
  if x == 3 then return not a and b end
  return a < b
end

--- The different values of a column, sorted; nil does not count.
---@param rows table
---@param name string
---@return table values
function M.distinct(rows, name)
  local out, seen = {}, {}
  for _, row in ipairs(rows) do
    local v = row[name]
    if v ~= nil and not seen[v] then
      seen[v] = true
      out[#out + 1] = v
    end
  end
  table.sort(out, before)
  return out
end

--- The one value a column has in all rows that have it.
---@param rows table
---@param name string
---@return any value nil if there are several, or none
function M.common(rows, name)
  local values = M.distinct(rows, name)
  if #values == 1 then return values[1] end
end

local function bounded(v, lo, hi)
  if type(lo) ~= 'number' or not finite(lo) then lo = v end
  if type(hi) ~= 'number' or not finite(hi) then hi = v end
  return ratio.lower(v, lo, hi), hi
end

--- The interval of a measured value.
---@param row table
---@param name string column
---@return number lo the value itself if the row has no interval
---@return number hi
function M.interval(row, name)
  return bounded(row[name], row[name .. '_lo'], row[name .. '_hi'])
end

--- The interval of a measured value by which rows of one sweep are held against each other: without
--- what other minutes differ by, which both have.
---@param row table
---@param name string column
---@return number lo the value itself if the row has no interval
---@return number hi
function M.own_interval(row, name)
  local v, lo, hi = row[name], minutes.ends(row, name)
  return bounded(v, lo, hi)
end

-- A time without an interval, and a rate over it, was seen in too few passes to be compared.
local function is_undecided(row, name)
  name = minutes.rate_of(row, name) or name
  return (row[name .. '_p95'] ~= nil or name:find '_quiet$' ~= nil) and row[name .. '_lo'] == nil
end

--- What a row is of another, where the two stood side by side in every pass: the ratio formed
--- within the passes.
---@param a table
---@param b table
---@param name string column
---@return number|nil ratio a over b; nil where they did not
---@return number|nil lo nil below five passes
---@return number|nil hi
function M.paired(a, b, name)
  local key = name .. '_ratio'
  if a.partner ~= nil and a.partner == b.trial and a[key] then
    return a[key], a[key .. '_lo'], a[key .. '_hi']
  elseif b.partner ~= nil and b.partner == a.trial and b[key] then
    return 1 / b[key], b[key .. '_hi'] and 1 / b[key .. '_hi'],
      b[key .. '_lo'] and 1 / b[key .. '_lo']
  end
end

--- The ratio of two rows: within their passes where they were side by side, else of their values.
---@param a table
---@param b table
---@param name string column
---@return number ratio a over b
function M.ratio(a, b, name)
  return M.paired(a, b, name) or a[name] / b[name]
end

--- Is a row below another? By the ratio within their passes where they stood side by side, else by
--- intervals that lie apart; open where one was disturbed, or has too few passes for an interval.
---@param a table
---@param b table
---@param name string column
---@return string verdict 'lower' if a is below b, 'higher', or 'open'
function M.verdict(a, b, name)
  if not (M.counts(a) and M.counts(b)) then return 'open' end
  local paired, lo, hi = M.paired(a, b, name)
  if paired then return lo and hi < 1 and 'lower' or lo and lo > 1 and 'higher' or 'open' end
  if is_undecided(a, name) or is_undecided(b, name) then return 'open' end
  local alo, ahi = M.own_interval(a, name)
  local blo, bhi = M.own_interval(b, name)
  if ahi < blo then return 'lower' end
  if alo > bhi then return 'higher' end
  return 'open'
end

--- Of several rows for one place: the one in the middle, or the best.
---@param list table rows, not empty
---@param name string column
---@param rule string 'median' or 'best'
---@param better string 'lower' or 'higher'
---@return table row
function M.pick(list, name, rule, better)
  if #list == 1 then return list[1] end
  local sorted = {}
  for i, row in ipairs(list) do sorted[i] = row end
  table.sort(sorted, function(a, b) return a[name] < b[name] end)
  if rule == 'best' then return better == 'higher' and sorted[#sorted] or sorted[1] end
  return sorted[math.ceil(#sorted / 2)]
end

--- The dense layer that belongs to a row: same dtype, sizes and batch; of several the one in the
--- middle, of those that were not disturbed where there are any.
---@param rows table all rows
---@param like table a row, or a table of its columns
---@param name string the column that must be there
---@return table|nil row
function M.dense_for(rows, like, name)
  local found = {}
  for _, row in ipairs(rows) do
    if row.layer == 'dense' and M.measured(row) and row[name] ~= nil
      and (like.dtype == nil or row.dtype == like.dtype)
      and (like.batch == nil or row.batch == like.batch)
      and (like.in_features == nil or row.in_features == like.in_features)
      and (like.out_features == nil or row.out_features == like.out_features) then
      found[#found + 1] = row
    end
  end
  local clean = {}
  for _, row in ipairs(found) do if M.counts(row) then clean[#clean + 1] = row end end
  if #found > 0 then return M.pick(#clean > 0 and clean or found, name, 'median') end
end

--- k at which two products through k cost as much as one dense product.
---@param n_in number
---@param n_out number
---@return number k = in * out / (in + out); a sketch has k = 2 * num_terms * low_rank
function M.break_even(n_in, n_out)
  return n_in * n_out / (n_in + n_out)
end

-- Words ---------------------------------------------------------------------------------------

--- 'A 30, B 4, C 2' for the measured rows; nil if none has a grade.
---@param rows table
---@return string|nil text
function M.grades(rows)
  local count, parts = {}, {}
  for _, row in ipairs(rows) do
    if M.measured(row) and row.grade then count[row.grade] = (count[row.grade] or 0) + 1 end
  end
  for _, grade in ipairs { 'A', 'B', 'C', 'D' } do
    if count[grade] then parts[#parts + 1] = ('%d %s'):format(count[grade], grade) end
  end
  if #parts > 0 then return table.concat(parts, ', ') end
end

--- Which rows have no value and why: '3 out of memory (needs 9 GB), 2 infeasible (...)'.
---@param rows table
---@return string|nil text nil if all are measured
---@return integer count
function M.failures(rows)
  local count, reason, total = {}, {}, 0
  for _, row in ipairs(rows) do
    if not M.measured(row) then
      local state = row.state
      count[state] = (count[state] or 0) + 1
      total = total + 1
      if reason[state] == nil then reason[state] = row.reason
      elseif row.reason ~= reason[state] then reason[state] = false end
    end
  end
  local parts, named = {}, {}
  local function add(state)
    if count[state] and not named[state] then
      named[state] = true
      parts[#parts + 1] = ('%d %s%s'):format(count[state], M.CAUSE_WORDS[state] or state,
        reason[state] and (' (' .. reason[state] .. ')') or '')
    end
  end
  for _, state in ipairs(M.CAUSES) do add(state) end
  for _, row in ipairs(rows) do if not M.measured(row) then add(row.state) end end
  if total > 0 then return table.concat(parts, ', '), total end
  return nil, 0
end

-- What stands beside a column: that of `fwd_gflops` is in `fwd_n`, as that of `fwd` is.
local function beside(row, name, suffix)
  while name do
    local n = row[name .. suffix]
    if n ~= nil then return n end
    name = name:match '^(.+)_[^_]*$'
  end
end

-- The least and the most of it: '50', '50 to 200'; nil where no row has it.
local function range(rows, name, suffix)
  local lo, hi
  for _, row in ipairs(rows) do
    local n = M.measured(row) and beside(row, name, suffix)
    if type(n) == 'number' then
      lo, hi = math.min(lo or n, n), math.max(hi or n, n)
    end
  end
  if not lo then return nil end
  local text = unit.grouped(hi)
  return lo == hi and text or ('%s to %s'):format(unit.grouped(lo), text), hi
end

--- What stands behind the points: 'n = 50 samples a point', 'n = 50 to 200 ...', and how many
--- passes they are medians of, where they were measured in passes.
---@param rows table
---@param name string column
---@return string|nil text nil if no row says
function M.samples(rows, name)
  local samples = range(rows, name, '_n')
  if not samples then return nil end
  local passes, most = range(rows, name, '_passes')
  local text = ('n = %s samples a point'):format(samples)
  if not passes then return text end
  return ('%s in %s %s, %s'):format(text, passes, most == 1 and 'pass' or 'passes',
    M.common(rows, 'shown') == 'quiet'
      and "quiet is the median of those that saw the machine's fast state"
      or 'med is the median of these')
end

--- The fixed part of the configuration: '1024 → 512, batch 128, f32'.
---@param rows table
---@return string text may be empty
function M.configuration(rows)
  local parts = {}
  local n_in, n_out = M.common(rows, 'in_features'), M.common(rows, 'out_features')
  if n_in and n_out then parts[#parts + 1] = ('%s → %s'):format(n_in, n_out) end
  local batch = M.common(rows, 'batch')
  if batch then parts[#parts + 1] = 'batch ' .. batch end
  local dtype = M.common(rows, 'dtype')
  if dtype then parts[#parts + 1] = dtype end
  return table.concat(parts, ', ')
end

return M

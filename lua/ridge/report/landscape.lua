-- SPDX-License-Identifier: MIT
--- What a landscape sweep found, in words and columns: rows ready to draw, a table, a verdict.

local pairing = require 'ridge.sweep.pairing'
local quiet = require 'ridge.plot.quiet'
local roof = require 'ridge.measure.roof'
local rows_of = require 'ridge.plot.rows'
local plain = require 'ridge.plain'
local unlike = require 'ridge.sweep.unlike'

local M = {}

local KINDS = { 'dense', 'lowrank', 'sketched' }

--- Rows of the sweep with what the figures and the table need beside the measured numbers:
-- in_features, out_features, batch, avg_time_ms, peak_memory_mb, throughput, gflops, gbps, k.
---@param rows table of sw:results()
---@param shape table n_in, n_out, batch
---@return table rows the same, filled in
function M.rows(rows, shape)
  for _, row in ipairs(rows) do
    row.in_features, row.out_features, row.batch = shape.n_in, shape.n_out, shape.batch
    row.k = row.layer == 'sketched' and 2 * row.num_terms * row.low_rank or row.rank
    if row.fwd then
      row.avg_time_ms = row.fwd_mean / 1e6
      row.throughput = shape.batch / (row.fwd / 1e9)
      row.gflops, row.gbps = row.fwd_gflops, row.fwd_gbps
    end
    if row.peak_bytes then row.peak_memory_mb = row.peak_bytes / 2 ^ 20 end
  end
  return rows
end

-- What is said in place of any claim about rows of a simulated device.
local SIMULATED = 'measured on a simulated device: these times say nothing of any GPU'

--- The rows by another time.
---@param rows table of M.rows
---@param shape table as for M.rows
---@param time string 'med', what a user gets on this machine as it is, or 'quiet', its fast state
---@return table rows
function M.by_time(rows, shape, time)
  return time == 'quiet' and M.rows(quiet.rows(rows, 'fwd', 'landscape'), shape) or rows
end

local function is_quiet(rows) return rows[1] ~= nil and rows[1].shown == 'quiet' end

-- Which time is meant by it in a table or a sentence.
local function which_time(rows)
  return is_quiet(rows) and ("times of %s, unpaired; means and quantiles are of all windows")
    :format(quiet.WORDS) or 'times are medians (med), the machine as it is'
end

--- Was any of these rows measured on a simulated device?
---@param rows table of M.rows
---@return boolean
function M.is_simulated(rows)
  for _, row in ipairs(rows) do
    if (row.flags or ''):find('SIMULATED', 1, true) then return true end
  end
  return false
end

-- -- Comparing ----------------------------------------------------------------------------------

local function measured(row)
  return rows_of.counts(row) and row.fwd ~= nil
end

-- The dense row of a type, however disturbed; nil where none has a time.
local function any_dense(rows, dtype)
  return rows_of.dense_for(rows, { dtype = dtype }, 'fwd')
end

local function dense_of(rows, dtype)
  local dense = any_dense(rows, dtype)
  return dense and measured(dense) and dense or nil
end

local WORDS = { lower = 'faster', higher = 'slower', open = 'open' }

--- 'faster', 'slower' or 'open' by the ratio of two rows within their passes, or by their intervals
--- where they have none; 'open' where they overlap, and 'disturbed' where one is of grade D.
---@param row table
---@param other table
---@return string
function M.against(row, other)
  if not (measured(row) and measured(other)) then return 'disturbed' end
  if not rows_of.paired(row, other, 'fwd') then
    local found = pairing.ratio(other, row, 'fwd')
    if found then
      return found.lo and (found.hi < 1 and 'faster' or found.lo > 1 and 'slower') or 'open'
    end
  end
  return WORDS[rows_of.verdict(row, other, 'fwd')]
end

local function types_of(rows)
  local seen, list = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.dtype] then
      seen[row.dtype] = true
      list[#list + 1] = row.dtype
    end
  end
  table.sort(list, function(a, b) return a > b end)
  return list
end

-- Is this row to stand for its point, before the other?  One that may take part in a verdict goes
-- before one that may not, then the faster one.
local function before(row, other)
  if measured(row) ~= measured(other) then return measured(row) end
  return row.fwd ~= nil and (other.fwd == nil or row.fwd < other.fwd)
end

--- One row for each sketched point: of the forms of the signs the one with the lower median, of
--- grade D only where all are; the other rows as they are.
---@param rows table of M.rows
---@return table rows
function M.faster_forms(rows)
  local best, out = {}, {}
  for _, row in ipairs(rows) do
    if row.layer == 'sketched' then
      local key = ('%s %d %d'):format(row.dtype, row.num_terms, row.low_rank)
      local other = best[key]
      if not other or before(row, other) then best[key] = row end
    end
  end
  for _, row in ipairs(rows) do
    if row.layer ~= 'sketched'
      or best[('%s %d %d'):format(row.dtype, row.num_terms, row.low_rank)] == row then
      out[#out + 1] = row
    end
  end
  return out
end

local OTHER_FORMS = {
  { form = 'bits', said = 'kept as bits take about half the bytes' },
  { form = 'seed', said = 'made from a seed as they are used take half the bytes' },
}

-- How often signs of another form are faster than stored ones, where both were measured.
local function form_sentence(rows, other_form)
  local stored, n, faster = {}, 0, 0
  local function key(row) return ('%s %d %d'):format(row.dtype, row.num_terms, row.low_rank) end
  for _, row in ipairs(rows) do
    if row.form == 'stored' and measured(row) then stored[key(row)] = row end
  end
  for _, row in ipairs(rows) do
    local other = row.form == other_form.form and measured(row) and stored[key(row)]
    if other then
      n = n + 1
      if M.against(row, other) == 'faster' then faster = faster + 1 end
    end
  end
  if n == 0 then return nil end
  return ('fixed signs %s and are faster than stored ones at %d of %d points.'):format(
    other_form.said, faster, n)
end

-- -- Roofs ------------------------------------------------------------------------------------

--- The share of the tighter measured roof that a row reaches, and which roof that is.
---@param row table fwd (ns), fwd_flops, fwd_sign_flops, fwd_bytes, dtype
---@param machine table|nil ceilings (a list of { name =, value = }), l1d, l2, l3 in bytes, threads
---@return number|nil share 1 is the roof
---@return string|nil name compute, L1, L2, LLC or DRAM
function M.roof(row, machine)
  if not machine or not machine.ceilings then return nil end
  local least, name = roof.least({ flops = row.fwd_flops, sign_flops = row.fwd_sign_flops,
    bytes = row.fwd_bytes, dtype = row.dtype }, roof.by_name(machine.ceilings), machine)
  if least then return least / row.fwd, name end
end

-- -- The table
-- -------------------------------------------------------------------------------------

-- Microseconds with four digits at least.
local function us(ns) return (ns < 1e6 and '%.4g' or '%.0f'):format(ns / 1e3) end

local COLUMNS = {
  { 'layer', 8, function(r) return r.layer end, true },
  { 'dtype', 5, function(r) return r.dtype end, true },
  { 'num_terms', 9, function(r) return r.num_terms or '' end },
  { 'low_rank', 8, function(r) return r.low_rank or r.rank or '' end },
  { 'signs', 6, function(r) return r.form or '' end, true },
  { 'param_count', 11, function(r) return ('%d'):format(r.param_count) end },
  { 'stored_kb', 9, function(r) return ('%.0f'):format(r.stored_bytes / 1024) end },
  { 'peak_memory_mb', 14, function(r) return ('%.2f'):format(r.peak_memory_mb) end },
  { 'avg_time_ms', 11, function(r) return ('%.4f'):format(r.avg_time_ms) end },
  { 'median us', 9, function(r) return us(r.fwd) end, quiet = 'quiet us' },
  { '95 % interval', 16, function(r)
    if not r.fwd_lo then return 'none' end   -- of too few passes
    local lo, hi = rows_of.interval(r, 'fwd')
    return us(lo) .. ' .. ' .. us(hi)
  end },
  { 'p95', 7, function(r) return us(r.fwd_p95) end },
  { 'p99', 7, function(r) return us(r.fwd_p99) end },
  { 'rows/s', 8, function(r) return ('%.3g'):format(r.throughput) end },
  { 'GFLOP/s', 7, function(r) return ('%.0f'):format(r.gflops) end },
  { 'GB/s', 6, function(r) return ('%.1f'):format(r.gbps) end },
  { '% roof', 6, function(r, c)
    local share = M.roof(r, c)
    return share and ('%.0f'):format(100 * share) or '-'
  end },
  { 'roof', 7, function(r, c) return (select(2, M.roof(r, c))) or '-' end, true },
  { 'error', 6, function(r) return ('%.3f'):format(r.rel_error) end },
  { 'grade', 5, function(r) return r.grade end, true },
  { 'vs dense', 14, function(r, _, dense)
    if r.layer == 'dense' or not dense then return '' end
    local word = M.against(r, dense)
    return ('%.2fx %s'):format(rows_of.ratio(dense, r, 'fwd'), word)
  end, true },
}

--- Every measured row as one line of a table, fastest first within type and kind; then a line for
--- each cause of what is missing.
---@param rows table of M.rows
---@param c table|nil ceilings and caches, as for M.roof
---@return string
function M.table(rows, c)
  local lines, head = {}, {}
  for i, column in ipairs(COLUMNS) do
    head[i] = ((column[4] and '%-' or '%') .. column[2] .. 's'):format(
      is_quiet(rows) and column.quiet or column[1])
  end
  if M.is_simulated(rows) then lines[1] = SIMULATED .. '.' end
  if #rows > 0 then lines[#lines + 1] = which_time(rows) .. '.' end
  lines[#lines + 1] = (table.concat(head, ' '):gsub('%s+$', ''))
  for _, dtype in ipairs(types_of(rows)) do
    local dense = dense_of(rows, dtype)
    for _, kind in ipairs(KINDS) do
      local some = {}
      for _, row in ipairs(rows) do
        if row.layer == kind and row.dtype == dtype and row.fwd then some[#some + 1] = row end
      end
      table.sort(some, function(a, b) return a.fwd < b.fwd end)
      for _, row in ipairs(some) do
        local cells = {}
        for i, column in ipairs(COLUMNS) do
          local text = tostring(column[3](row, c, dense))
          cells[i] = ((column[4] and '%-' or '%') .. column[2] .. 's'):format(text)
        end
        lines[#lines + 1] = (table.concat(cells, ' '):gsub('%s+$', ''))
      end
    end
  end
  local missing, causes = {}, {}
  for _, row in ipairs(rows) do
    if not row.fwd then
      -- reasons that differ in numbers only are one: the first speaks for all
      local reason = row.reason and row.reason:match('[^\n]*') or ''
      local cause = row.state .. reason:gsub('%d+', '')
      if not missing[cause] then
        missing[cause] = { n = 0, shown = row.state == 'unseen' and 'shown' or 'measured',
          text = row.state .. (reason ~= '' and ': ' .. reason or '') }
        causes[#causes + 1] = cause
      end
      missing[cause].n = missing[cause].n + 1
    end
  end
  table.sort(causes)
  for _, cause in ipairs(causes) do
    local m = missing[cause]
    lines[#lines + 1] = ('%d not %s, %s%s'):format(m.n, m.shown, m.text,
      m.n > 1 and ', and so on' or '')
  end
  return plain.text(table.concat(lines, '\n'))
end

-- -- The verdict
-- --------------------------------------------------------------------------------------

-- How often the sketched rows of a type are faster, slower, open against a dense row, how many of
-- them count (n) and how many were disturbed, which do not; highest: the largest k that is faster.
local function sketched_against(rows, dtype, dense)
  local tally = { n = 0, faster = 0, slower = 0, open = 0, disturbed = 0, highest = 0 }
  for _, row in ipairs(rows_of.select(rows, { layer = 'sketched', dtype = dtype })) do
    if rows_of.measured(row) and row.fwd then
      local word = M.against(row, dense)
      tally[word] = tally[word] + 1
      if word ~= 'disturbed' then tally.n = tally.n + 1 end
      if word == 'faster' then tally.highest = math.max(tally.highest, row.k) end
    end
  end
  return tally
end

-- What is not in a count: ' (3 undecided, 2 disturbed and left out)'.
local function left_over(tally)
  local parts = {}
  if tally.open > 0 then parts[1] = ('%d undecided'):format(tally.open) end
  if tally.disturbed > 0 then
    parts[#parts + 1] = ('%d disturbed and left out'):format(tally.disturbed)
  end
  return #parts > 0 and (' (%s)'):format(table.concat(parts, ', ')) or ''
end

-- '0.18 [0.17 .. 0.19]': the ratio of two times, within their passes or as wide as their intervals
-- allow.
local function ratio_text(a, b)
  local found = pairing.ratio(b, a, 'fwd')
  if found and found.lo then
    return ('%.2f [%.2f .. %.2f]'):format(found.med, found.lo, found.hi)
  end
  local a_lo, a_hi = rows_of.own_interval(a, 'fwd')
  local b_lo, b_hi = rows_of.own_interval(b, 'fwd')
  return ('%.2f [%.2f .. %.2f]'):format(a.fwd / b.fwd, a_lo / b_hi, a_hi / b_lo)
end

-- Why nothing is compared with the dense layer of a type.
local function no_dense(rows, dtype)
  local dense = any_dense(rows, dtype)
  if dense then
    return ('%s: the dense layer was disturbed (grade D: %s), so nothing is compared with it; '
      .. '--new measures again.'):format(dtype, dense.flags or 'no flags are kept')
  end
  for _, row in ipairs(rows) do
    if row.layer == 'dense' and row.dtype == dtype then
      return ('%s: the dense layer was not measured (%s), so nothing is compared with it.'):format(
        dtype, row.state)
    end
  end
  return ('%s: there is no dense layer to compare with.'):format(dtype)
end

local function rivals(rows, dtype)
  local by_k = {}
  for _, row in ipairs(rows) do
    if row.layer == 'lowrank' and row.dtype == dtype and measured(row) then by_k[row.k] = row end
  end
  local pairs_seen, faster, smaller_error = 0, 0, 0
  for _, row in ipairs(rows) do
    if row.layer == 'sketched' and row.dtype == dtype and measured(row) and by_k[row.k] then
      pairs_seen = pairs_seen + 1
      if M.against(row, by_k[row.k]) == 'faster' then faster = faster + 1 end
      if row.rel_error < by_k[row.k].rel_error then smaller_error = smaller_error + 1 end
    end
  end
  return pairs_seen, faster, smaller_error
end

--- What was found, in sentences; every number in them is a count of rows.
---@param rows table of M.rows
---@param shape table n_in, n_out
---@return string
-- Raises EARG where rows are of unlike machines.
function M.verdict(rows, shape)
  unlike.check(rows, 'landscape')
  if M.is_simulated(rows) then return SIMULATED .. ', so there is no verdict.' end
  local lines, of_forms = {}, {}
  for _, other in ipairs(OTHER_FORMS) do of_forms[#of_forms + 1] = form_sentence(rows, other) end
  rows = M.faster_forms(rows)
  local even = shape.n_in * shape.n_out / (shape.n_in + shape.n_out)
  for _, dtype in ipairs(types_of(rows)) do
    local dense = dense_of(rows, dtype)
    if dense then
      local tally = sketched_against(rows, dtype, dense)
      local highest = tally.highest
      if tally.n + tally.disturbed > 0 then
        local where = ''
        if tally.faster > 0 then
          where = highest < even
            and (', all with k = 2*T*R below %.0f'):format(even)
            or (', up to k = 2*T*R = %d (%.0f is where it stores as much as dense)'):format(
              highest, even)
        end
        lines[#lines + 1] = ('%s: sketched beats dense at %d of %d points%s%s.'):format(dtype,
          tally.faster, tally.n, where, left_over(tally))
      end
    else
      lines[#lines + 1] = no_dense(rows, dtype)
    end
    local compared, won, better = rivals(rows, dtype)
    if compared > 0 then
      lines[#lines + 1] = ('%s: at equal bytes, sketched is faster than low-rank at %d of %d'
        .. ' points, and nearer to the dense weight at %d.'):format(dtype, won, compared, better)
    end
  end
  local f32, bf16 = dense_of(rows, 'f32'), dense_of(rows, 'bf16')
  if f32 and bf16 then
    local tally = sketched_against(rows, 'f32', bf16)
    lines[#lines + 1] = ('dense bf16 takes %s of the time of dense f32; %d of %d f32 sketches are'
      .. ' faster than it%s.'):format(ratio_text(bf16, f32), tally.faster, tally.n,
      left_over(tally))
  end
  for _, line in ipairs(of_forms) do lines[#lines + 1] = line end
  if is_quiet(rows) then lines[#lines + 1] = ('By %s.'):format(which_time(rows)) end
  return plain.text(table.concat(lines, '\n'))
end

return M

-- SPDX-License-Identifier: MIT
--- A benchmark's report: a table to read, JSON in the groups of document 003, a file for each batch
--- size (F138).

local canonical = require 'ridge.store.canonical'
local guard = require 'ridge.guard'
local columns = require 'ridge.show.columns'
local metrics = require 'ridge.bench.metrics'
local output = require 'ridge.ffi.output'
local unit = require 'ridge.show.unit'

local M = {}

M.FORMAT, M.VERSION = 'ridge-bench', 1

local Report = {}
Report.__index = Report

local function timestamp() return os.date('!%Y-%m-%dT%H:%M:%SZ') end

--- A report over measured points.
---@param entries table each as metrics.of takes it
---@param facts table of ridge.sweep.lab
---@return table report
function M.new(entries, facts)
  local self = setmetatable({ entries = entries, models = {}, names = {}, comparison = {},
    timestamp = timestamp() }, Report)
  for _, entry in ipairs(entries) do
    local by_batch = self.models[entry.model]
    if not by_batch then
      by_batch = {}
      self.models[entry.model] = by_batch
      self.names[#self.names + 1] = entry.model
    end
    entry.metrics = metrics.of(entry)
    by_batch[entry.batch] = entry.metrics
  end
  self.results = self.models[self.names[1]]
  self.hardware_info = metrics.hardware(facts, entries[1] and entries[1].clock_hz)
  for _, entry in ipairs(entries) do
    local base = self.results[entry.batch]
    if entry.model ~= self.names[1] and base then
      local found = metrics.against(base, entry.metrics)
      found.model_name, found.baseline, found.batch_size = entry.model, self.names[1], entry.batch
      self.comparison[#self.comparison + 1] = found
      entry.against = found
    end
  end
  return self
end

-- Text ---------------------------------------------------------------------------------------

local function ms(value) return unit.format('ns', value * 1e6) end

local function interval(latency)
  if not latency.ci_lo_ms then return '' end
  return ('%s .. %s'):format(ms(math.max(latency.ci_lo_ms, 0)), ms(latency.ci_hi_ms))
end

local function cells(entry, several)
  local m = entry.metrics
  local l, row = m.latency, {}
  if several then row[1] = entry.model end
  for _, cell in ipairs { entry.batch, ms(l.median_ms), interval(l), ms(l.mean_ms), ms(l.p95_ms),
      ms(l.p99_ms), ('%.4g'):format(m.throughput.samples_per_sec),
      ('%.4g'):format(m.throughput.batches_per_sec), ('%.2f'):format(m.memory.peak_mb),
      ('%.2f'):format(m.memory.avg_mb), m.quality.grade or '?' } do
    row[#row + 1] = cell
  end
  return row
end

-- Below this a single call is too short for the clock around it.
local SHORT_MS = 0.01

local HEADS = { 'batch', 'median', '95 % interval', 'mean', 'P95', 'P99', 'samples/s', 'batches/s',
  'peak MB', 'avg MB', 'grade' }

local function comparison_text(self)
  local rows = {}
  for i, c in ipairs(self.comparison) do
    rows[i] = { c.model_name, c.batch_size, ('%.3g'):format(c.speedup), c.speedup_lo
      and ('%.3g .. %s'):format(c.speedup_lo, c.speedup_hi and ('%.3g'):format(c.speedup_hi)
        or '?') or '', c.verdict,
      ('%.1f'):format(c.memory_savings_percent) }
  end
  return ('against %s\n%s'):format(self.names[1], columns.text({ 'model', 'batch', 'speed-up',
    '95 % interval', 'verdict', 'memory saved %' }, rows,
    { width = 200, right = { [3] = true, [6] = true } }))
end

--- The report as lines.
---@return string text
function Report:text()
  local several, heads, rows, right = #self.names > 1, {}, {}, {}
  if several then heads[1] = 'model' end
  for _, head in ipairs(HEADS) do
    heads[#heads + 1] = head
    right[#heads] = head ~= 'grade'
  end
  for i, entry in ipairs(self.entries) do rows[i] = cells(entry, several) end
  local parts = { columns.text(heads, rows, { width = 200, right = right }) }
  local inner, flagged, short = {}, {}, false
  for _, entry in ipairs(self.entries) do
    inner[#inner + 1] = entry.inner
    short = short or entry.inner == 1 and entry.metrics.latency.median_ms < SHORT_MS
    for flag in (entry.flags or ''):gmatch '%S+' do flagged[flag] = true end
  end
  local lo, hi = math.min(unpack(inner)), math.max(unpack(inner))
  parts[2] = lo == 1 and hi == 1 and 'percentiles of single calls'
    or ('percentiles of samples; a sample is %s calls'):format(lo == hi and lo
      or lo .. ' to ' .. hi)
  if short then
    parts[3] = 'single calls below 10 µs carry the clock itself, some tens of nanoseconds'
  end
  for _, name in ipairs(require('ridge.measure').flags()) do
    if flagged[name] then
      parts[#parts + 1] = ('%s: %s'):format(name, require('ridge.measure').flag(name).text)
    end
  end
  if several then parts[#parts + 1] = comparison_text(self) end
  return table.concat(parts, '\n')
end

Report.__tostring = guard.text(Report.text)

-- JSON ---------------------------------------------------------------------------------------

local function document(self, entries, comparison, with_samples)
  local results = canonical.list {}
  for i, entry in ipairs(entries) do
    results[i] = { model_name = entry.model, batch_size = entry.batch, params = entry.params,
      metrics = entry.metrics, samples_ns = with_samples and canonical.list(entry.samples) or nil }
  end
  return canonical.encode { format = M.FORMAT, version = M.VERSION, timestamp = self.timestamp,
    hardware_info = self.hardware_info, results = results,
    comparison = canonical.list(comparison) }
end

--- The report as JSON, stable and versioned.
---@param opt table|nil samples = true: with all samples, in nanoseconds
---@return string json
function Report:json(opt)
  return document(self, self.entries, self.comparison, opt and opt.samples)
end

--- Write one JSON file, samples included, for each model and batch size.
---@param folder string must exist
---@return table paths
function Report:save(folder)
  local paths, taken = {}, {}
  for _, entry in ipairs(self.entries) do
    local name = entry.model:gsub('[^%w_%-]+', '_'):gsub('_+$', ''):sub(1, 60)
    local path = ('%s/%s_b%d.json'):format(folder, name, entry.batch)
    local n = 1
    while taken[path] do
      n = n + 1
      path = ('%s/%s_b%d-%d.json'):format(folder, name, entry.batch, n)
    end
    taken[path] = true
    local own = {}
    for _, c in ipairs(self.comparison) do
      if c.model_name == entry.model and c.batch_size == entry.batch then own[#own + 1] = c end
    end
    output.write(path, 'bench', document(self, { entry }, own, true) .. '\n')
    paths[#paths + 1] = path
  end
  return paths
end

--- The report as comma-separated values, a line for each point.
---@return string csv
function Report:csv()
  local names, seen = {}, {}
  for _, entry in ipairs(self.entries) do
    for name in pairs(entry.params or {}) do
      if not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)
  local GROUPS = { { 'latency', 'mean_ms', 'median_ms', 'p95_ms', 'p99_ms', 'min_ms', 'max_ms',
    'std_ms', 'ci_lo_ms', 'ci_hi_ms', 'own_lo_ms', 'own_hi_ms', 'first_ms', 'samples',
    'calls_per_sample' },
    { 'throughput', 'samples_per_sec', 'batches_per_sec' }, { 'memory', 'peak_mb', 'avg_mb' },
    { 'quality', 'grade', 'flags', 'gflops' } }
  local function field(value)
    local text = value == nil and '' or type(value) == 'number' and canonical.number(value)
      or tostring(value)
    return text:find '[",\n]' and '"' .. text:gsub('"', '""') .. '"' or text
  end
  local head = { 'model', 'batch' }
  for _, name in ipairs(names) do
    if name ~= 'model' and name ~= 'batch' then head[#head + 1] = name end
  end
  local fixed = #head
  for _, group in ipairs(GROUPS) do
    for i = 2, #group do head[#head + 1] = group[i] end
  end
  local lines = { table.concat(head, ',') }
  for _, entry in ipairs(self.entries) do
    local line = { field(entry.model), field(entry.batch) }
    for k = 3, fixed do line[k] = field(entry.params[head[k]]) end
    for _, group in ipairs(GROUPS) do
      for i = 2, #group do line[#line + 1] = field(entry.metrics[group[1]][group[i]]) end
    end
    lines[#lines + 1] = table.concat(line, ',')
  end
  return table.concat(lines, '\n')
end

guard.all(Report)

return M

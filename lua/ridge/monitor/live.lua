-- SPDX-License-Identifier: MIT
--- What a run looks like at this moment, read from its event file: how far it is, its rate, its
--- memory, how busy the machine is, what is left, and its curves.

local chart = require 'ridge.show.chart'
local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local read = require 'ridge.tensorboard.read'

local M = {}

local Run = {}
Run.__index = Run

--- Values of a curve that are kept: each second one goes when there are more.
M.KEEP = 20000

local CURVES = { 'training_loss', 'loss', 'epoch_loss', 'val_loss', 'accuracy' } -- first of all
local HEAD = { progress = true, rows_per_s = true, step_time = true, epoch = true,
  peak_memory_mb = true }
local MOST_CURVES, CURVE_LINES = 3, 8
local UNITS = { percent = '%', celsius = 'C', clock_mhz = 'MHz' } -- of what GPUs are

--- Look at a run.
---@param path string a folder with an event file, or the file
---@return table|nil run nil where there is none
function M.open(path)
  local file = read.find(path)
  if not file then return nil end
  return setmetatable({ name = path, reader = read.open(file), curves = {}, last = {}, step = 0,
    over = false }, Run)
end

local function add(curve, value)
  curve.seen = curve.seen + 1
  if curve.seen % curve.every ~= 0 then return end
  curve[#curve + 1] = value
  if #curve <= M.KEEP then return end
  for i = 1, #curve / 2 do curve[i] = curve[2 * i] end
  for i = #curve, math.floor(#curve / 2) + 1, -1 do curve[i] = nil end
  curve.every = 2 * curve.every
end

--- Read what was added since.
---@return boolean changed
function Run:look()
  local n = self.reader:more(function(tag, step, value, at_s)
    self.began = self.began or at_s
    if tag == '_hparams_/session_end_info' then self.over = true end
    if value == nil then return end
    if not self.curves[tag] then
      self.curves[tag] = { seen = 0, every = 1 }
    end
    add(self.curves[tag], value)
    self.last[tag], self.step, self.at = value, math.max(self.step, step), at_s
    if tag == 'progress' and not self.first then self.first = { value = value, at_s = at_s } end
  end)
  return n > 0
end

local function duration(s)
  if s >= 3600 then return ('%d:%02d:%02d'):format(s / 3600, s / 60 % 60, s % 60) end
  return ('%d:%02d'):format(s / 60, s % 60)
end

--- Seconds that are left at the rate so far; nil where nobody said how long it is.
---@return number|nil s
function Run:left()
  local p, from, began = self.last.progress, 0, self.began
  if not p or not (p > 0 and p <= 1) or not self.at then return nil end
  if p > self.first.value then -- it may go on from a checkpoint: what was before took no time here
    from, began = self.first.value, self.first.at_s
  end
  return (self.at - began) * (1 - p) / (p - from)
end

--- How far it is, in one line.
---@return string
function Run:text()
  local last, parts = self.last, { ('step %d'):format(self.step) }
  if last.epoch then parts[#parts + 1] = ('epoch %d'):format(last.epoch) end
  if last.progress then parts[#parts + 1] = ('%.0f %%'):format(100 * last.progress) end
  for _, name in ipairs(CURVES) do
    if last[name] then parts[#parts + 1] = ('%s %.4g'):format(name, last[name]) end
  end
  if last.rows_per_s then
    parts[#parts + 1] = ('%.0f rows/s'):format(last.rows_per_s)
  elseif last.step_time and last.step_time > 0 then
    parts[#parts + 1] = ('%.4g steps/s'):format(1 / last.step_time)
  end
  if last['system/memory_mb'] then
    parts[#parts + 1] = ('memory %.1f MB'):format(last['system/memory_mb'])
  end
  if last.peak_memory_mb then
    parts[#parts + 1] = ('at most %.1f MB'):format(last.peak_memory_mb)
  end
  if last['system/cpu_percent'] then
    parts[#parts + 1] = ('processors %.0f %%'):format(last['system/cpu_percent'])
  end
  local tags = {}
  for tag in pairs(last) do
    if tag:find '^system/[^/]+/' then tags[#tags + 1] = tag end
  end
  table.sort(tags)
  for _, tag in ipairs(tags) do
    local name, what = tag:match '^system/([^/]+)/([%w_]+)$'
    if UNITS[what] then parts[#parts + 1] = ('%s %.0f %s'):format(name, last[tag], UNITS[what]) end
  end
  local left = self:left()
  if self.over then
    parts[#parts + 1] = 'ended'
  elseif left then
    parts[#parts + 1] = duration(left) .. ' left'
  end
  return plain.line(('%s  %s'):format(self.name, table.concat(parts, ' · ')))
end

-- Names of curves, those that a training has first.
local function names_of(self)
  local names, taken = {}, {}
  for _, name in ipairs(CURVES) do
    if self.curves[name] then names[#names + 1], taken[name] = name, true end
  end
  local rest = {}
  for name in pairs(self.curves) do
    if not taken[name] and not HEAD[name] and not name:find '^system/' then
      rest[#rest + 1] = name
    end
  end
  table.sort(rest)
  for _, name in ipairs(rest) do names[#names + 1] = name end
  return names
end

--- The line, and curves below it.
---@param size table columns, lines of the terminal
---@return table lines
function Run:screen(size)
  local lines = {}
  local head = self:text()
  lines[1] = columns.cut(head, size.columns)
  local n = 0
  for _, name in ipairs(names_of(self)) do
    if n < MOST_CURVES and #lines + CURVE_LINES + 2 <= size.lines and #self.curves[name] > 1 then
      n = n + 1
      lines[#lines + 1] = plain.line(name)
      for line in chart.line(self.curves[name], size.columns - 1):gmatch '[^\n]+' do
        lines[#lines + 1] = line
      end
    end
  end
  return lines
end

--- Close its file.
function Run:close() self.reader:close() end

return M

-- SPDX-License-Identifier: MIT
--- What a run looks like at this moment, read from its event file: how far it is, its rate, its
--- memory, how busy the machine is, what is left, and its curves.

local chart = require 'ridge.show.chart'
local clock = require 'ridge.store.clock'
local colour = require 'ridge.show.colour'
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
  peak_memory_mb = true, SIMULATED = true }
local MOST_CURVES, CURVE_LINES = 3, 8
local CURVE_COLUMNS = 16 -- with its labels: on less there is no curve
local SILENT_S = 10 -- since the last value: worth a word
local UNITS = { percent = '%', celsius = 'C', clock_mhz = 'MHz' } -- of what devices are

--- Look at a run.
---@param path string a folder with an event file, or the file
---@return table|nil run nil where there is none; gone: nobody writes its file any more, and it has
---  not ended
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

local function read_more(self)
  return self.reader:more(function(tag, step, value, at_s)
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
end

-- A run that goes on after a break has another file, in the same folder: from here on that one.
local function follow(self)
  local path = read.find(self.name)
  if not path or path == self.reader.path then return false end
  self.reader:close()
  self.reader, self.over, self.began, self.first = read.open(path), false, nil, nil
  return true
end

--- Read what was added since.
---@return boolean changed
function Run:look()
  -- asked before it is read: a process that writes its last values and ends has not gone too early
  local gone = self.reader:is_written() == false
  local n = read_more(self)
  if n == 0 and (gone or self.over) and follow(self) then
    gone, n = self.reader:is_written() == false, 1 + read_more(self)
  end
  self.gone = gone and not self.over
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

-- How far it is: one thing after the other.
local function parts_of(self)
  local last, parts = self.last, { ('step %d'):format(self.step) }
  if last.SIMULATED then parts[#parts + 1] = 'SIMULATED' end -- a program plays its network
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
  local silent_s = self.at and clock.now_us() / 1e6 - self.at or 0
  if self.over then
    parts[#parts + 1] = 'ended'
  elseif self.gone then
    parts[#parts + 1] = 'its process is gone, and told no end'
  else
    if left then parts[#parts + 1] = duration(left) .. ' left' end
    if silent_s > SILENT_S then
      parts[#parts + 1] = ('nothing since %s'):format(duration(silent_s))
    end
  end
  for i, part in ipairs(parts) do parts[i] = plain.line(part) end
  return parts
end

local BETWEEN = ' · '

--- How far it is, in one line.
---@return string
function Run:text()
  return plain.line(self.name) .. '  ' .. table.concat(parts_of(self), BETWEEN)
end

-- The same in lines of a terminal: none is cut that is not alone on its line.
local function wrapped(self, width)
  local lines, now = {}, columns.cut(plain.line(self.name), width)
  local between = '  '
  for _, part in ipairs(parts_of(self)) do
    if colour.width(now .. between .. part) > width then
      lines[#lines + 1] = now
      now, between = '  ' .. columns.cut(part, width - 2), BETWEEN
    else
      now, between = now .. between .. part, BETWEEN
    end
  end
  lines[#lines + 1] = now
  return lines
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

--- How far it is, and curves below that.
---@param size table columns, lines of the terminal
---@return table lines
function Run:screen(size)
  local lines, n = wrapped(self, size.columns), 0
  for i = #lines, math.max(1, size.lines - 1) + 1, -1 do lines[i] = nil end
  local names = size.columns >= CURVE_COLUMNS and names_of(self) or {}
  for _, name in ipairs(names) do
    if n < MOST_CURVES and #lines + CURVE_LINES + 2 <= size.lines and #self.curves[name] > 1 then
      n = n + 1
      lines[#lines + 1] = columns.cut(plain.line(name), size.columns)
      for line in chart.line(self.curves[name], size.columns - 1):gmatch '[^\n]+' do
        lines[#lines + 1] = line
      end
    end
  end
  return lines
end

--- Can it not go on while it is watched? So it is where this process writes it.
---@return boolean
function Run:is_still() return self.reader:is_own() end

--- Close its file.
function Run:close() self.reader:close() end

return M

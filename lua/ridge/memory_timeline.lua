-- SPDX-License-Identifier: MIT
--- The curve of live bytes while a function runs, and who was alive at its peak: read from the
--- ring's events of blocks that are taken and given back.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local lines = require 'ridge.lines'
local ranges = require 'ridge.ranges'
local ring = require 'ridge.ring'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'
local summary = require 'ridge.show.summary'
local showing = require 'ridge.show.value'

local M = {}

--- Events that are kept, the first ones.
M.CAPACITY = 2 ^ 18

local SHOWN, BOX = 12, 8 -- lines of Lua that its text lists, and a prompt

local MemoryTimeline = { __name = 'MemoryTimeline' }
MemoryTimeline.__index = MemoryTimeline

-- The entry's reader, and what each device had when it began.
local NOTES = {}

function NOTES.on(entry)
  if entry.reader then
    entry.reader:hear(true)
  else
    entry.reader = ring.open('alloc free', M.CAPACITY, C.RG_READ_FIRST)
  end
  ranges.WANTED.on()
  lines.TOLD.on()
end

function NOTES.off(entry)
  entry.reader:hear(false)
  lines.TOLD.off()
  ranges.WANTED.off()
end

function NOTES.stop(entry)
  NOTES.off(entry)
  entry.reader:close()
end

-- -- Reading ------------------------------------------------------------------------------

local function bytes_at(device) return { device = device, live = 0, peak = 0, points = {} } end

-- Events in order, as plain rows: they are gone over twice.
local function events_of(reader)
  local list, begin = {}, reader:facts().begin_ns
  for event in reader:each() do
    list[#list + 1] = { kind = event.kind, device = event.device, bytes = event.bytes,
      live = event.live_bytes, block = event.block, line = event.line, module = event.module,
      at_s = (event.begin_ns - begin) / 1e9 }
  end
  return list
end

-- By device: the curve, and after which event it was highest.
local function curves(events)
  local by, list = {}, {}
  for i, e in ipairs(events) do
    local d = by[e.device]
    if not d then
      d = bytes_at(e.device)
      by[e.device], list[#list + 1] = d, d
      d.before = e.live + (e.kind == 'alloc' and -e.bytes or e.bytes)
      d.peak = d.before
      d.points[1] = { at_s = 0, live = d.before, device = e.device }
    end
    d.live = e.live
    d.points[#d.points + 1] = { at_s = e.at_s, live = e.live, device = e.device }
    if e.live > d.peak then d.peak, d.peak_at, d.peak_s = e.live, i, e.at_s end
  end
  table.sort(list, function(a, b)
    if a.peak ~= b.peak then return a.peak > b.peak end
    return a.device < b.device
  end)
  return list
end

-- Who was alive behind the event that made a device's peak, the most first. What was there before,
-- and what other threads took and gave back, is what the sum lacks.
local function alive(events, d)
  local held, by, list, sum = {}, {}, {}, 0
  for i = 1, d.peak_at or 0 do
    local e = events[i]
    if e.device == d.device then held[e.block] = e.kind == 'alloc' and e or nil end
  end
  for _, e in pairs(held) do
    local key = (e.line or '') .. '\0' .. (e.module or '')
    local row = by[key]
    if not row then
      row = { line = e.line or '(no line)', module = e.module, bytes = 0, blocks = 0 }
      by[key], list[#list + 1] = row, row
    end
    row.bytes, row.blocks, sum = row.bytes + e.bytes, row.blocks + 1, sum + e.bytes
  end
  if d.peak - sum > 0 then
    list[#list + 1] = { line = '(there before)', bytes = d.peak - sum, blocks = 0 }
  end
  table.sort(list, function(a, b)
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return a.line .. (a.module or '') < b.line .. (b.module or '')
  end)
  return list
end

-- What f came to; the device that had the highest peak stands for all where one is asked for.
local function made(reader)
  local events, facts = events_of(reader), reader:facts()
  local list = curves(events)
  for _, d in ipairs(list) do d.at_peak = alive(events, d) end
  local first, taken = list[1] or bytes_at 'cpu', 0
  for _, e in ipairs(events) do taken = taken + (e.kind == 'alloc' and 1 or 0) end
  return setmetatable({ devices = list, device = first.device, peak = first.peak,
    live = first.live, before = first.before or first.live, peak_s = first.peak_s,
    at_peak = first.at_peak or {}, points = first.points, lost = facts.dropped,
    events = #events, taken = taken }, MemoryTimeline)
end

local function finish(entry, ok, ...)
  if not ok then
    state.leave(entry)
    error((...), 0)
  end
  if not state.take(entry) then blame.raise('memory.timeline: it was ended meanwhile') end
  NOTES.off(entry)
  local out = made(entry.reader)
  entry.reader:close()
  return out, ...
end

--- Call a function and note each block that this thread takes and gives back meanwhile.
---@param f function
---@param ... any its arguments
---@return table timeline
---@return any ... what f returns
function M.record(f, ...)
  if not blame.callable(f) then
    blame.raise('memory.timeline: a function is expected, got ' .. blame.show(f), 'EARG')
  end
  ref.settle() -- what is dead before is not given back by f
  return finish(state.enter(NOTES, {}), pcall(f, ...))
end

-- -- Looking at it ------------------------------------------------------------------------

-- Who was alive at the peak, as a table of so many lines.
local function text_of(self, most)
  local head = ('%s: at most %s live, %s before, %s behind; %s taken, %d given back%s')
    :format(self.device, summary.bytes(self.peak), summary.bytes(self.before),
      summary.bytes(self.live), plain.count(self.taken, 'block'), self.events - self.taken,
      self.lost > 0 and ('; %d later events not kept'):format(self.lost) or '')
  local rows, rest, n = {}, 0, 0
  for i, row in ipairs(self.at_peak) do
    if i <= most then
      rows[i] = { summary.bytes(row.bytes), ('%.0f %%'):format(100 * row.bytes / self.peak),
        row.blocks > 0 and row.blocks or '', row.line, row.module }
    else
      rest, n = rest + row.bytes, n + 1
    end
  end
  if n > 0 then
    rows[#rows + 1] = { summary.bytes(rest), ('%.0f %%'):format(100 * rest / self.peak), '',
      ('(%d more)'):format(n) }
  end
  if #rows == 0 then return head end
  return head .. '\nalive at the peak:\n' .. columns.text({ 'bytes', '', 'blocks', 'line',
    'module' }, rows, { right = { true, true, true } })
end

--- Who was alive at the peak, as a table.
---@return string
function MemoryTimeline:text() return text_of(self, SHOWN) end

--- The curve as a picture, with who was alive at the peak: `:save 'x.png'`, `:show()`.
---@param opt table|nil theme, and what the figure says of where it comes from
---@return table figure
-- >> ridge.memory.timeline(function() return ridge.ones(64, 64) + 1 end):plot():show()
function MemoryTimeline:plot(opt)
  if #self.points == 0 then
    blame.raise('memory.timeline:plot: no memory was taken or given back', 'EARG')
  end
  local rows = {}
  for _, p in ipairs(self.points) do
    rows[#rows + 1] = { at_s = p.at_s, live = p.live, device = p.device }
  end
  for _, row in ipairs(self.at_peak) do
    rows[#rows + 1] = { line = row.line, module = row.module, bytes = row.bytes,
      blocks = row.blocks }
  end
  local given = options.over({}, opt, 'plot.memory')
  given.device = given.device or self.device
  return require('ridge.plot').draw('memory', rows, given)
end

showing.ways(MemoryTimeline, {
  line = function(self)
    return ('memory of %s: at most %s live'):format(self.device, summary.bytes(self.peak))
  end,
  box = function(self) return text_of(self, BOX) end,
  png = function(self) return self:plot():png() end,
})

require('ridge.types').register('MemoryTimeline', function(value)
  return getmetatable(value) == MemoryTimeline
end, {
  methods = { text = 'text(): who was alive at the peak',
              plot = 'plot(opt): the picture, to :save(path) or :show()' },
})

guard.all(MemoryTimeline)

return M

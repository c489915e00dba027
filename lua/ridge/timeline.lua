-- SPDX-License-Identifier: MIT
--- The timeline of streams (F209): when each call of a function began and ended.
--
-- On a GPU both ends are events in the stream, on the CPU readings of the clock. They take time of
-- their own: the timeline shows what runs beside what, it is no measurement.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local columns = require 'ridge.show.columns'
local options = require 'ridge.options'
local guard = require 'ridge.guard'
local device = require 'ridge.device'
local plain = require 'ridge.plain'
local ranges = require 'ridge.ranges'
local ring = require 'ridge.ring'
local state = require 'ridge.state'
local showing = require 'ridge.show.value'

local M = {}

local CAPACITY = 2 ^ 16 -- calls, the first ones

local Timeline = { __name = 'Timeline' }
Timeline.__index = Timeline

-- The spans of a reader, and how many calls are not in it.
local function spans(reader)
  local list, facts = {}, reader:facts()
  local lost = facts.dropped
  for event in reader:each() do
    if event.end_ns and event.from_ns ~= event.from_ns then -- it has no marks
      lost = lost + 1
    elseif event.end_ns then
      list[#list + 1] = { name = event.name, stream = event.stream, device = event.device,
        begin_s = (event.from_ns - facts.begin_ns) / 1e9,
        end_s = (event.to_ns - facts.begin_ns) / 1e9,
        shapes = event.shapes ~= '' and event.shapes or nil, module = event.module }
    end
  end
  return list, lost
end

-- The entry's reader.
local NOTES = {}

function NOTES.on(entry)
  if entry.reader then
    entry.reader:hear(true)
  else
    entry.reader = ring.open('op copy plan', CAPACITY, C.RG_READ_FIRST + C.RG_READ_AXIS)
  end
  ranges.WANTED.on()
end

function NOTES.off(entry)
  entry.reader:hear(false)
  ranges.WANTED.off()
end

function NOTES.stop(entry)
  NOTES.off(entry)
  entry.reader:close()
end

local function finish(entry, ok, ...)
  if not ok then
    state.leave(entry)
    error((...), 0)
  end
  if not state.take(entry) then blame.raise('timeline: it was ended meanwhile') end
  NOTES.off(entry)
  local list, lost = spans(entry.reader)
  entry.reader:close()
  return setmetatable({ spans = list, lost = lost }, Timeline), ...
end

--- Call a function and note when each of its operations, copies between devices and replays of
--- plans began and ended on its stream; waits for all of them at the end.
---@param f function
---@param ... any its arguments
---@return table timeline spans (name, device, stream, begin_s, end_s, shapes, module, in the order
---  they were asked for), lost (calls beyond the first 65536); tostring shows a row for each stream
---@return any ... what f returns
-- >> print((ridge.timeline(function() return ridge.randn(500, 500):softmax():sum() end)))
function M.record(f, ...)
  if not blame.callable(f) then
    blame.raise('timeline: a function is expected, got ' .. blame.show(f))
  end
  return finish(state.enter(NOTES, {}), pcall(f, ...))
end

-- -- Looking at it ------------------------------------------------------------------------

--- The streams something ran on: key ('cuda:0 stream 1'), device, stream, spans by their beginning,
--- busy_s (time in which at least one call was under way).
---@return table list in the order of devices and streams
function Timeline:streams()
  local list, by_key = {}, {}
  for _, span in ipairs(self.spans) do
    local key = ('%s stream %d'):format(span.device, span.stream)
    local row = by_key[key]
    if not row then
      row = { key = key, device = span.device, stream = span.stream, spans = {} }
      by_key[key] = row
      list[#list + 1] = row
    end
    row.spans[#row.spans + 1] = span
  end
  table.sort(list, function(a, b)
    if a.device ~= b.device then return a.device < b.device end
    return a.stream < b.stream
  end)
  for _, row in ipairs(list) do
    table.sort(row.spans, function(a, b) return a.begin_s < b.begin_s end)
    local busy, covered = 0, -math.huge
    for _, span in ipairs(row.spans) do
      busy = busy + math.max(0, span.end_s - math.max(span.begin_s, covered))
      covered = math.max(covered, span.end_s)
    end
    row.busy_s = busy
  end
  return list
end

--- Seconds in which one of two kinds of calls was under way beside the other.
---@param is_one fun(span: table): boolean
---@param is_other fun(span: table): boolean
---@return number s
-- >> t = ridge.timeline(function() return ridge.ones(9):sum() end)
-- >> t:overlap(function(s) return s.stream == 1 end, function(s) return s.stream == 0 end)
function Timeline:overlap(is_one, is_other)
  local edges = {}
  for _, span in ipairs(self.spans) do
    local one, other = is_one(span), is_other(span)
    if one or other then
      edges[#edges + 1] = { span.begin_s, one and 1 or 0, other and 1 or 0 }
      edges[#edges + 1] = { span.end_s, one and -1 or 0, other and -1 or 0 }
    end
  end
  table.sort(edges, function(a, b) return a[1] < b[1] end)
  local sum, last, ones, others = 0, 0, 0, 0
  for _, edge in ipairs(edges) do
    if ones > 0 and others > 0 then sum = sum + edge[1] - last end
    last, ones, others = edge[1], ones + edge[2], others + edge[3]
  end
  return sum
end

local function seconds(s)
  if s >= 1 then return ('%.3f s'):format(s) end
  if s >= 1e-3 then return ('%.3f ms'):format(s * 1e3) end
  return ('%.1f us'):format(s * 1e6)
end

-- Where something runs on a stream, in `width` cells; copies look unlike the rest.
local function bar(row, first, last, width)
  local cells = {}
  for i = 1, width do cells[i] = '.' end
  for _, span in ipairs(row.spans) do
    local scale = width / math.max(last - first, 1e-12)
    local from = math.min(width, math.floor((span.begin_s - first) * scale) + 1)
    local to = math.max(from, math.min(width, math.ceil((span.end_s - first) * scale)))
    for i = from, to do cells[i] = span.name == 'copy' and '=' or '#' end
  end
  return table.concat(cells)
end

--- A row for each stream, where `#` is a call under way and `=` a copy.
---@param width number|nil cells of a row, 60 when left out
---@return string
function Timeline:text(width)
  width = width or 60
  if type(width) ~= 'number' or not (width >= 1 and width <= 10000) then
    blame.raise('timeline:text: a row has 1 to 10000 cells, got ' .. blame.show(width), 'EARG')
  end
  width = math.floor(width)
  if #self.spans == 0 then return 'timeline: no call was made' end
  local first, last = math.huge, 0
  for _, span in ipairs(self.spans) do
    first, last = math.min(first, span.begin_s), math.max(last, span.end_s)
  end
  local lines = { ('timeline of %s, %s%s'):format(plain.count(#self.spans, 'call'),
    seconds(last - first), self.lost > 0 and (', %d more %s not in it'):format(self.lost,
    self.lost == 1 and 'is' or 'are') or '') }
  for _, row in ipairs(self:streams()) do
    lines[#lines + 1] = ('%-16s |%s| busy %s'):format(row.key, bar(row, first, last, width),
      seconds(row.busy_s))
  end
  return table.concat(lines, '\n')
end

--- A line for each call, in the order of their beginnings: stream, name, begin, end.
---@return string
function Timeline:list()
  local first, all, lines = math.huge, {}, {}
  for i, span in ipairs(self.spans) do
    all[i], first = span, math.min(first, span.begin_s)
  end
  table.sort(all, function(a, b) return a.begin_s < b.begin_s end)
  for i, span in ipairs(all) do
    lines[i] = ('%-7s stream %d  %-18s %12s .. %12s'):format(span.device, span.stream, span.name,
      seconds(span.begin_s - first), seconds(span.end_s - first))
  end
  return table.concat(lines, '\n')
end

--- The timeline as a picture, a lane for each stream: `:save 'x.png'`, `:show()`.
-- >> ridge.timeline(function() return ridge.randn(500, 500):softmax() end):plot():show()
---@param opt table|nil from, to (seconds after the first call), theme
---@return table figure
function Timeline:plot(opt)
  if #self.spans == 0 then blame.raise('timeline:plot: no call was made') end
  local given, names, seen = options.over({}, opt, 'plot.timeline'), {}, {}
  for _, row in ipairs(self:streams()) do
    if not seen[row.device] then
      seen[row.device], names[#names + 1] = true, device.facts(row.device).name
    end
  end
  given.device = given.device or table.concat(names, ', ')
  return require('ridge.plot').draw('timeline', self.spans, given)
end

local LABEL = 36 -- columns beside the cells of a row

showing.ways(Timeline, {
  line = function(self) return 'timeline of ' .. plain.count(#self.spans, 'call') end,
  box = function(self)
    local room = columns.terminal()
    return self:text(room == math.huge and 60 or math.max(10, math.min(200, room - LABEL)))
  end,
  png = function(self) return self:plot():png() end,
})

require('ridge.types').register('Timeline', function(value)
  return getmetatable(value) == Timeline
end, {
  methods = { text = 'text(width): a row for each stream', list = 'list(): a line for each call',
              streams = 'streams(): what ran on each',
              overlap = 'overlap(one, other): seconds in which both were under way',
              plot = 'plot(opt): the picture, to :save(path) or :show()' },
})

guard.all(Timeline)

return M

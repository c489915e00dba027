-- SPDX-License-Identifier: MIT
--- Memory by the line of Lua that took it, and what grew between two moments: a leak hunt.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.show.columns'
local guard = require 'ridge.guard'
local lines = require 'ridge.lines'
local options = require 'ridge.options'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'
local summary = require 'ridge.show.summary'

local M = {}

local UNKNOWN = '(not counted by line)'

-- -- Counting -----------------------------------------------------------------------------

local depth = 0 -- states that are on, the lasting one among them
local lasting = false

--- The state (ridge.state): memory is counted by line.
M.COUNTED = {
  on = function()
    depth = depth + 1
    lines.TOLD.on()
    ranges.WANTED.on()
    if depth == 1 then C.rg_memory_sites(1) end
  end,
  off = function()
    depth = depth - 1
    if depth == 0 then C.rg_memory_sites(0) end
    ranges.WANTED.off()
    lines.TOLD.off()
  end,
}

--- Count from now on what each line takes, or no more.
---@param on boolean
---@return boolean before
function M.lines(on)
  if on == nil then blame.raise('memory.lines: true or false is expected', 'EARG') end
  options.flag(on, 'memory.lines', 'on')
  local before = lasting
  if on ~= before then
    lasting = on
    M.COUNTED[on and 'on' or 'off']()
  end
  return before
end

local function text(p) return p ~= nil and ffi.string(p) or nil end

--- What each line has, the most first.
---@param number number of the device
---@return table list of { line, module, live, peak, blocks }
function M.list(number)
  local list, m = {}, ffi.new 'rg_site_memory'
  for i = 1, C.rg_memory_site_count() do
    call.check(C.rg_memory_site_of(number, i, m))
    if m.peak_bytes > 0 then
      list[#list + 1] = { line = text(m.line) or '(no line)', module = text(m.module),
        live = tonumber(m.live_bytes), peak = tonumber(m.peak_bytes),
        blocks = tonumber(m.n_blocks) }
    end
  end
  table.sort(list, function(a, b)
    if a.live ~= b.live then return a.live > b.live end
    if a.peak ~= b.peak then return a.peak > b.peak end
    return a.line .. (a.module or '') < b.line .. (b.module or '')
  end)
  return list
end

-- -- Marks --------------------------------------------------------------------------------

local Growth = {}
local Mark = {}
Mark.__index = Mark

Growth.__tostring = function(self)
  local rows = {}
  for i, row in ipairs(self) do
    rows[i] = { summary.bytes(row.bytes), row.blocks, row.line, row.module }
  end
  local each = self.calls and ('%s a call of %d'):format(summary.bytes(math.max(0,
    self.bytes / self.calls)), self.calls) or summary.bytes(math.abs(self.bytes))
  local head = self.bytes > 0 and ('%s more on %s than before'):format(each, self.device)
    or self.bytes < 0 and ('%s less on %s than before'):format(summary.bytes(-self.bytes),
      self.device)
    or ('as much on %s as before'):format(self.device)
  if #rows == 0 then return head end
  return head .. '\n' .. columns.text({ 'bytes', 'blocks', 'line', 'module' }, rows,
    { right = { true, true } })
end
Growth.__tostring = guard.text(Growth.__tostring)

local function key_of(row) return row.line .. '\0' .. (row.module or '') end

--- What is live now, by line; what is dead in Lua is collected first.
---@param number number of the device
---@param device string its name
---@return table mark
function M.mark(number, device)
  ref.collect()
  local mark = { device = device, number = number, by = {}, counted = 0,
    live = tonumber(C.rg_memory_of(number).live_bytes),
    blocks = tonumber(C.rg_memory_of(number).n_blocks), counted_blocks = 0 }
  for _, row in ipairs(M.list(number)) do
    mark.by[key_of(row)] = row
    mark.counted = mark.counted + row.live
    mark.counted_blocks = mark.counted_blocks + row.blocks
  end
  return setmetatable(mark, Mark)
end

--- What grew since, by line: the most first.
---@param later table|nil another mark; now when left out
---@return table growth a list of { line, module, bytes, blocks }, with bytes (of all, what shrank
---  taken off) and device; tostring shows it as a table
-- >> mark = ridge.memory.mark()
-- >> x = ridge.ones(1000)
-- >> mark:grew().bytes
function Mark:grew(later)
  later = later or M.mark(self.number, self.device)
  if getmetatable(later) ~= Mark or later.number ~= self.number then
    blame.raise(('mark:grew: a mark of %s is expected, got %s'):format(self.device,
      getmetatable(later) == Mark and 'one of ' .. later.device or blame.show(later)), 'EARG')
  end
  local out = { bytes = later.live - self.live, device = self.device }
  for key, row in pairs(later.by) do
    local before = self.by[key] or { live = 0, blocks = 0 }
    if row.live > before.live then
      out[#out + 1] = { line = row.line, module = row.module, bytes = row.live - before.live,
        blocks = row.blocks - before.blocks }
    end
  end
  local rest = (later.live - later.counted) - (self.live - self.counted)
  if rest > 0 then
    out[#out + 1] = { line = UNKNOWN, bytes = rest, blocks = (later.blocks - later.counted_blocks)
      - (self.blocks - self.counted_blocks) }
  end
  table.sort(out, function(a, b)
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return key_of(a) < key_of(b)
  end)
  return setmetatable(out, Growth)
end

guard.all(Mark)

-- -- Leaks --------------------------------------------------------------------------------

local WARM = 2 -- calls that may keep what they like: caches, packed weights

local function hunt(number, device, f, n)
  for _ = 1, WARM do f() end
  local mark = M.mark(number, device)
  for _ = 1, n do f() end
  local grown = mark:grew()
  grown.calls = n
  return grown
end

--- What calls of a function leave behind, by line.
---@param number number of the device
---@param device string its name
---@param f function
---@param n number calls that are looked at
---@return table growth
function M.leaks(number, device, f, n)
  return state.with(M.COUNTED, {}, hunt, number, device, f, n)
end

return M

-- SPDX-License-Identifier: MIT
--- One pass of a net under the ring of events: whose call each event was in.
--
-- The events of a thread lie inside each other. Each one's own time is its length without those
-- directly inside it, so that all own times and what no event covers are the whole pass: no moment
-- is counted twice, and none is lost.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local dtypes = require 'ridge.tensor.dtype'
local products = require 'ridge.products'
local ranges = require 'ridge.ranges'
local ring = require 'ridge.ring'
local state = require 'ridge.state'

local M = {}

local CAPACITY = 2 ^ 18

-- The entry's reader.
local WATCHED = {}

function WATCHED.on(entry)
  if entry.reader then
    entry.reader:hear(true)
  else
    entry.reader = ring.open('op step plan range copy wait', CAPACITY)
  end
  ranges.WANTED.on()
end

function WATCHED.off(entry)
  entry.reader:hear(false)
  ranges.WANTED.off()
end

local PHASES = { 'forward', 'loss', 'backward' }

local function bucket()
  return { ns = 0, flops = 0, products = 0, bytes = 0, least_ns = 0, roofs = {}, calls = 0 }
end

local function bucket_of(found, row, phase)
  local of = found.rows[row]
  if not of then
    of = { forward = bucket(), loss = bucket(), backward = bucket() }
    found.rows[row] = of
  end
  return of[phase]
end

local function phase_of(event, at)
  return event.begin_ns < at[1] and 'forward' or event.begin_ns < at[2] and 'loss' or 'backward'
end

-- The row whose event it is; `found.outside` stands for none.
local function owner_of(found, layers, event)
  return event.kind == 'range' and layers.by_path[event.name]
    or event.module and layers:at(event.module) or found.outside
end

-- What an operation or a step did.
local function count(b, event, roof)
  b.flops, b.bytes = b.flops + event.flops, b.bytes + event.bytes
  b.products = b.products + products.of(event)
  b.calls = b.calls + 1
  if event.device_ns then b.device_ns = (b.device_ns or 0) + event.device_ns end
  if not roof then return end
  local ns, name = roof(event)
  if ns then
    b.least_ns = b.least_ns + ns
    b.roofs[name] = (b.roofs[name] or 0) + ns
  else
    b.no_roof = true
  end
end

-- The time before what a layer does in the backward pass, since what came before it there: it is
-- the tape's, for this layer's sake.
local function gap_before(found, row, holds, event)
  if not holds or holds.name ~= 'backward' or row == found.outside then return 0 end
  return math.max(0, event.begin_ns - (holds.last or holds.begin_ns))
end

-- Attribute the events of a reader.
local function attributed(reader, at, layers, roof)
  local found = { rows = {}, outside = {}, calls = {}, ns = {} }
  for i, phase in ipairs(PHASES) do found.ns[phase] = at[i] - at[i - 1] end
  local stack, n, covered = {}, 0, { forward = 0, loss = 0, backward = 0 }
  for event in reader:each() do
    if event.end_ns and event.begin_ns >= at[0] and event.end_ns <= at[3] then
      local phase, took = phase_of(event, at), event.end_ns - event.begin_ns
      local row = owner_of(found, layers, event)
      local b = bucket_of(found, row, phase)
      while n > 0 and stack[n].end_ns <= event.begin_ns do n = n - 1 end
      if n > 0 then
        local gap = gap_before(found, row, stack[n], event)
        stack[n].bucket.ns = stack[n].bucket.ns - took - gap
        stack[n].last = event.end_ns
        b.ns = b.ns + gap
      else
        covered[phase] = covered[phase] + took
      end
      b.ns = b.ns + took
      n = n + 1
      stack[n] = { end_ns = event.end_ns, begin_ns = event.begin_ns, bucket = b,
        name = event.kind == 'range' and event.name or nil }
      if event.kind == 'op' or event.kind == 'step' then
        count(b, event, roof)
        found.masked = found.masked
          or event.name:find '^attention' and event.shapes:find 'bool%['
        if phase == 'forward' then row.out = event.shapes:match '%-> (.*)$' or row.out end
      elseif event.kind == 'range' and phase == 'forward' and layers.by_path[event.name]
        and not layers.parts[event.name] then
        found.calls[row] = (found.calls[row] or 0) + 1
      end
    end
  end
  for _, phase in ipairs(PHASES) do -- what no event covers
    local b = bucket_of(found, found.outside, phase)
    b.ns = b.ns + found.ns[phase] - covered[phase]
  end
  return found
end

local function run(entry, pass, heard)
  entry.at = state.with(ranges.HEARD, { value = heard }, pass)
  entry.reader:hear(false)
end

--- Run a pass under the ring; what happened is read later, so that reading it disturbs nothing.
---@param pass function returns the moments between its phases, [0] .. [3]
---@param heard function|nil of each call of a module
---@return table watched for M.read
function M.run(pass, heard)
  local entry = {}
  local ok, err = pcall(state.with, WATCHED, entry, run, entry, pass, heard)
  if not ok then
    if entry.reader then entry.reader:close() end
    error(err, 0)
  end
  return entry
end

local function read(entry, layers, roof)
  call.check(C.rg_device_wait(C.RG_EVERY_DEVICE))
  if entry.reader:facts().dropped > 0 then
    blame.raise(('analyze: one pass has more events than are kept (%d): give a smaller x'):format(
      CAPACITY), 'EARG', 'analyze')
  end
  return attributed(entry.reader, entry.at, layers, roof)
end

--- Attribute what happened in a pass, once.
---@param watched table of M.run
---@param layers table ridge.analyze.layers
---@param roof function|nil of an event: the least nanoseconds it takes, and the roof's name
---@return table found rows (by row, forward, loss and backward: ns, flops, products, bytes,
---  least_ns, roofs), outside (a row for what is in no module), calls (by row), ns (by phase)
function M.read(watched, layers, roof)
  local ok, found = pcall(read, watched, layers, roof)
  watched.reader:close()
  if not ok then error(found, 0) end
  return found
end

--- What is kept for the backward pass from a tensor, by the module in whose call it was kept first:
--- each piece of memory once, and none that the net holds anyway.
---@param y Tensor
---@param layers table
---@param dtype string|nil the net's: how much of it is of that type is told apart
---@return table bytes by row; [false] for none
---@return table of_type likewise, of this type alone
function M.saved(y, layers, dtype)
  local count_slot, room = ffi.new 'int64_t[1]', 4096
  local list = ffi.new('rg_saved[?]', room)
  call.check(C.rg_grad_saved(y._t, list, room, count_slot))
  if count_slot[0] > room then
    room = tonumber(count_slot[0])
    list = ffi.new('rg_saved[?]', room)
    call.check(C.rg_grad_saved(y._t, list, room, count_slot))
  end
  local bytes, of_type, seen = {}, {}, {}
  for i = tonumber(count_slot[0]) - 1, 0, -1 do -- the last calls stand first
    local s = list[i]
    local memory = tonumber(s.memory)
    if s.param == 0 and not layers.held[memory] and not seen[memory] then
      seen[memory] = true
      local row = s.module ~= nil and layers:at(ffi.string(s.module)) or false
      local typed = dtypes.name(s.dtype) == dtype and tonumber(s.bytes) or 0
      bytes[row] = (bytes[row] or 0) + tonumber(s.bytes)
      of_type[row] = (of_type[row] or 0) + typed
    end
  end
  return bytes, of_type
end

return M

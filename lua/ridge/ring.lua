-- SPDX-License-Identifier: MIT
--- Readers of the core's ring of events (ridge/ring.h): what profiles and timelines are made of.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'

local M = {}

local Reader = {}
Reader.__index = Reader

--- Kinds of events by their names, and the names by the kinds.
M.KINDS = {}
for kind in ('OP VIEW COPY PLAN STEP RANGE ALLOC FREE WAIT'):gmatch '%S+' do
  local code = C['RG_EVENT_' .. kind]
  M.KINDS[kind:lower()], M.KINDS[code] = code, kind:lower()
end

--- A reader that hears events of some kinds from now on. It ends with `close`, or with the last
--- reference to it.
---@param kinds string 'op copy plan'
---@param capacity number events that are kept at least
---@param how number|nil RG_READ_..., joined
---@return table reader
function M.open(kinds, capacity, how)
  local bits, number = 0, ffi.new 'int32_t[1]'
  for kind in kinds:gmatch '%S+' do bits = bits + 2 ^ M.KINDS[kind] end
  call.check(C.rg_reader_open(bits, how or 0, capacity, number))
  return setmetatable({ number = ffi.gc(number, function(n) C.rg_reader_close(n[0]) end) }, Reader)
end

--- Have room for the next events, so that none waits for memory.
---@param n number as many as it keeps at most
function Reader:reserve(n)
  if self.number then C.rg_reader_reserve(self.number[0], n) end
end

--- Hear nothing for a while, or go on.
---@param on boolean
function Reader:hear(on)
  if self.number then C.rg_reader_hear(self.number[0], on and 1 or 0) end
end

--- How many events were seen and are missing; replays that went step by step instead of as a graph.
---@return table facts seen, dropped, graphs, begin_ns
function Reader:facts()
  local f = ffi.new 'rg_reader_facts'
  call.check(C.rg_reader_facts_of(self.number[0], f))
  return { seen = tonumber(f.n_seen), dropped = tonumber(f.n_dropped),
           graphs = tonumber(f.n_graphs), begin_ns = tonumber(f.begin_ns) }
end

local function text(p) return p ~= nil and ffi.string(p) or nil end

-- An event as a table.
local function fill(out, event)
  out.kind, out.name, out.path = M.KINDS[event.kind], text(event.name), text(event.path) or ''
  out.module, out.shapes = text(event.module), text(C.rg_shapes_text(event.shapes))
  out.line, out.block = text(event.line), tonumber(event.block)
  out.serial, out.parent = tonumber(event.serial), tonumber(event.parent)
  out.origin = event.origin >= 0 and tonumber(event.origin) or nil
  out.begin_ns = tonumber(event.begin_ns)
  out.end_ns = event.end_ns >= 0 and tonumber(event.end_ns) or nil
  out.from_ns, out.to_ns = event.from_ns, event.to_ns
  out.device_ns = event.device_ns == event.device_ns and event.device_ns or nil
  out.flops, out.bytes, out.live_bytes = event.flops, event.bytes, tonumber(event.live_bytes)
  out.device, out.stream = ffi.string(C.rg_device_name(event.device)), event.stream
  out.thread, out.step, out.n_threads = event.thread, event.step, event.n_threads
  return out
end

--- The events, the oldest first; the same table is filled for each. What failed, or goes on, has no
--- end_ns.
---@return fun(): table|nil next kind, name, path, module, line, block, shapes, serial, parent,
---  origin (serial of the call whose gradient it is part of), begin_ns, end_ns, from_ns, to_ns,
---  device_ns, flops, bytes, live_bytes, device, stream, thread, step, n_threads
function Reader:each()
  local at, event, out = ffi.new 'int64_t[1]', ffi.new 'rg_happening', {}
  return function()
    call.check(C.rg_reader_next(self.number[0], at, event))
    if event.name == nil then return nil end
    return fill(out, event)
  end
end

-- Events that were copied out of a ring.
local Copy = {}
Copy.__index = Copy

--- The events as they are there now; they stay when the reader is closed.
---@return table copy n, bytes, each() as that of a reader, and each's second value: which one it is
function Reader:copy()
  local facts = self:facts()
  local room = facts.seen - facts.dropped + 1 -- and the one behind the last
  local events, at, n = ffi.new('rg_happening[?]', room), ffi.new 'int64_t[1]', 0
  while n < room do
    call.check(C.rg_reader_next(self.number[0], at, events + n))
    if events[n].name == nil then break end
    n = n + 1
  end
  return setmetatable({ events = events, n = n, bytes = room * ffi.sizeof 'rg_happening' }, Copy)
end

function Copy:each()
  local i, out = -1, {}
  return function()
    i = i + 1
    if i >= self.n then return nil end
    return fill(out, self.events[i]), i
  end
end

--- How many events fit into so many bytes, at least one.
---@param bytes number
---@return integer n
function M.fitting(bytes)
  return math.max(1, math.floor(bytes / C.RG_EVENT_BYTES))
end

--- Release it.
function Reader:close()
  if self.number then
    C.rg_reader_close(ffi.gc(self.number, nil)[0])
    self.number = nil
  end
end

return M

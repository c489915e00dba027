-- SPDX-License-Identifier: MIT
--- Batches on their way to a GPU: gathered into host memory that its copies reach by themselves,
--- copied on a stream of their own ahead of use, and handed out behind an event, so that whoever
--- uses one waits for its copy and for no other.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require 'ridge.class'
local make = require('ridge.tensor.make').here
local place = require 'ridge.tensor.place'
local ref = require 'ridge.ffi.ref'

local Ahead = class.class 'data.ahead'

local out = ffi.new('rg_tensor *[8]')
local event_slot = ffi.new('rg_event *[1]')
local slot = ref.slot

--- Batches of a pool on a device.
---@param pool table data.pool, which gathers
---@param device number of a GPU
---@param rows number in a full batch
---@param depth number batches that are copied ahead
---@param pinned boolean in pinned memory; else each copy is waited for
function Ahead:init(pool, device, rows, depth, pinned)
  self.pool, self.device, self.rows, self.depth, self.pinned = pool, device, rows, depth, pinned
  self.hosts, self.n_hosts = {}, 0 -- those that nobody gathers into, the longest unused first
  self.gathering, self.copied = {}, {}
  self.events = {}
end

-- Room on the host for a batch. What is used again was copied `depth` batches ago: its copy has
-- arrived, or ordering the batch waits for it.
local function host_of(self)
  if self.n_hosts == self.pool.room + self.depth then return table.remove(self.hosts, 1) end
  local host = {}
  for i, each in ipairs(self.pool.of) do
    local sizes = { self.rows, unpack(each.shape) }
    sizes[#sizes + 1] = { dtype = each.dtype, pinned = self.pinned }
    host[i] = make.empty(unpack(sizes))
    C.rg_scope_keep(host[i]._t)
  end
  self.n_hosts = self.n_hosts + 1
  return host
end

--- Order a batch.
---@param order cdata|nil as for the pool
---@param first number
---@param n number rows
function Ahead:order(order, first, n)
  local host = host_of(self)
  local tensors = host
  if n < self.rows then
    tensors = {}
    for i, x in ipairs(host) do
      tensors[i] = x:narrow(1, 1, n)
      C.rg_scope_keep(tensors[i]._t)
    end
  end
  self.gathering[#self.gathering + 1] = { host = host, tensors = tensors }
  self.pool:order(order, first, n, tensors)
end

-- The stream of the copies: not the one that this thread computes on, where there is another.
local function copy_stream(device)
  local now = C.rg_stream_now(device)
  local other = now ~= 1 and 1 or 2
  return other < place.streams(device) and other or now
end

local function event_of(self)
  local event = table.remove(self.events)
  if event then return event end
  call.check(C.rg_event_new(self.device, event_slot), 'data.Loader')
  return ffi.gc(event_slot[0], C.rg_event_release)
end

-- Copy tensors and set a mark behind; called on the stream of the copies.
local function copy(self, tensors)
  local there, event = {}, event_of(self)
  for i, x in ipairs(tensors) do
    local t = x._t
    call.run('data.Loader', C.rg_to_device, t, self.device, slot)
    there[i] = ref.wrap(slot[0])
    C.rg_scope_keep(there[i]._t)
  end
  call.check(C.rg_event_set(event), 'data.Loader')
  return { tensors = there, event = event }
end

--- May the oldest batch that was ordered be copied now, without waiting for it?
---@return boolean
function Ahead:ready()
  return #self.copied < self.depth and C.rg_loader_ready(self.pool.loader) == 1
end

--- Ask for the copy of the oldest batch that was ordered; waits until it is gathered.
function Ahead:copy()
  call.settle()
  local st = C.rg_loader_next(self.pool.loader, out)
  if st == C.RG_EINTR then call.fail(st, 'data.Loader') end -- it is still to come
  local batch = table.remove(self.gathering, 1)
  self.hosts[#self.hosts + 1] = batch.host
  call.check(st, 'data.Loader')
  for i = 1, #batch.tensors do C.rg_tensor_release(out[i - 1]) end -- the queue has its own handles
  self.copied[#self.copied + 1] = place.on_stream(self.device, copy_stream(self.device), copy, self,
    batch.tensors)
end

--- The oldest copy, behind which this thread's stream comes; nil where none was asked for.
---@return Tensor ... one for each source
function Ahead:next()
  local batch = table.remove(self.copied, 1)
  for _, x in ipairs(batch.tensors) do
    call.check(C.rg_tensor_follow(x._t, batch.event), 'data.Loader')
  end
  self.events[#self.events + 1] = batch.event
  return unpack(batch.tensors)
end

--- Forget what an epoch that was left half-way has under way.
function Ahead:clear()
  self.pool:clear()
  for _, batch in ipairs(self.gathering) do self.hosts[#self.hosts + 1] = batch.host end
  for _, batch in ipairs(self.copied) do
    self.events[#self.events + 1] = batch.event
    for _, x in ipairs(batch.tensors) do x:release() end
  end
  self.gathering, self.copied = {}, {}
end

return Ahead

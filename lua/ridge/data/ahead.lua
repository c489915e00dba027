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
  self.most = pool.room + depth
  self.events = {}
end

--- May another batch be ordered?
---@return boolean
function Ahead:has_room()
  return self.pool:has_room()
end

-- Room on the host for a batch. What is used again was copied `depth` batches ago: its copy is
-- done, or ordering the batch waits for it.
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
---@param owner table who gets it, for `oldest`
---@param order cdata|nil as for the pool
---@param first number
---@param n number rows
function Ahead:order(owner, order, first, n)
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
  self.pool:order(owner, order, first, n, tensors)
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
  local st = C.rg_event_new(self.device, event_slot)
  if st ~= 0 then call.fail(st, 'data.Loader') end
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

-- Ask for the copy of the oldest batch that was ordered; waits until it is gathered.
local function copy_oldest(self)
  local owner, take = self.pool:oldest()
  local batch = table.remove(self.gathering, 1)
  self.hosts[#self.hosts + 1] = batch.host
  local ok, copied = pcall(function()
    take()
    return place.on_stream(self.device, copy_stream(self.device), copy, self, batch.tensors)
  end)
  if not ok then copied = { failed = copied } end -- its owner is told
  copied.owner = owner
  self.copied[#self.copied + 1] = copied
end

--- Copy what is gathered, as far ahead as wanted, and take the oldest copy; its stream waits for
--- the copy when it is used.
---@param order_more function called when there is room to gather more
---@return table owner as `order` was told
---@return function take returns its tensors, one for each source, or raises what went wrong
function Ahead:oldest(order_more)
  while self.gathering[1] and (not self.copied[1]
      or #self.copied < self.depth and C.rg_loader_ready(self.pool.loader) == 1) do
    copy_oldest(self)
    order_more()
  end
  local batch = table.remove(self.copied, 1)
  return batch.owner, function()
    if batch.failed then error(batch.failed, 0) end
    for _, x in ipairs(batch.tensors) do
      call.check(C.rg_tensor_follow(x._t, batch.event), 'data.Loader')
    end
    self.events[#self.events + 1] = batch.event
    return unpack(batch.tensors)
  end
end

return Ahead

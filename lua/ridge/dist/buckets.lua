-- SPDX-License-Identifier: MIT
--- Gradients of a net in buckets: which lies where, and when one is complete.
--
-- A bucket is one tensor: the gradients of some parameters one behind the other, then a flag for
-- each, which says whether any rank had one. Buckets are sent in one order everywhere, that in
-- which rank 0's first backward pass completed gradients; what is not there at the end of a pass
-- counts as zero.

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'
local worlds = require 'ridge.world'

local WHAT = 'dist.DataParallel'

local Buckets = class 'dist.Buckets'

local function reset(self)
  self.sent = 0
  for _, bucket in ipairs(self) do
    bucket.left, bucket.ticket = #bucket.list, nil
    for _, p in ipairs(bucket.list) do self.of[p].there = nil end
  end
end

-- A range of a bucket, as a tensor of a shape.
local function piece(bucket, first, x)
  return bucket.arena:narrow(1, first + 1, x.count):view(x:size())
end

---@param world table
---@param list table parameters, {name =, tensor =}, in the order in which they are sent
---@param opts table bucket_mb, compress, overlap
function Buckets:init(world, list, opts)
  self.world, self.overlap = world, opts.overlap
  self.of = {} -- by parameter: {bucket, first, flag}
  local bucket
  for _, p in ipairs(list) do
    local x = p.tensor
    local dtype = opts.compress ~= 'none' and opts.compress or x.dtype
    if not bucket or bucket.dtype ~= dtype
        or bucket.count > 0 and (bucket.count + x.count) * 4 > opts.bucket_mb * 2 ^ 20 then
      bucket = { dtype = dtype, count = 0, list = {} }
      self[#self + 1] = bucket
    end
    self.of[p] = { bucket = bucket, first = bucket.count, place = #bucket.list }
    bucket.list[#bucket.list + 1] = p
    bucket.count = bucket.count + x.count
  end
  for _, each in ipairs(self) do
    each.arena = ref.outlive(make.zeros(each.count + #each.list, { dtype = each.dtype }))
    for i, p in ipairs(each.list) do
      local at = self.of[p]
      at.flag = ref.outlive(each.arena:narrow(1, each.count + i, 1))
      at.piece = ref.outlive(piece(each, at.first, p.tensor))
    end
  end
  reset(self)
end

local function send(self, bucket, weight)
  local x = bucket.arena
  bucket.ticket = worlds.start(self.world, WHAT, { kind = C.RG_GROUP_ALL_REDUCE,
    op = C.RG_GROUP_WEIGHTED, dtype = x._t._dtype, count = x._t._count, weight = weight,
    ['in'] = x._t._data, out = x._t._data }, x)
end

-- Put a parameter's gradient into its bucket: zeros where there is none.
local function put(self, p)
  local at, grad = self.of[p], p.tensor.grad
  at.there = true
  at.piece:copy_(grad or 0)
  at.flag:copy_(grad and 1 or 0)
  at.bucket.left = at.bucket.left - 1
end

--- A gradient is complete: buckets that are full and next go on their way.
---@param p table the parameter
---@param weight number rows that this rank's gradient is the mean of
function Buckets:complete(p, weight)
  if self.of[p].there then return end
  put(self, p)
  local bucket = self[self.sent + 1]
  while self.overlap and bucket and bucket.left == 0 do
    send(self, bucket, weight)
    self.sent = self.sent + 1
    bucket = self[self.sent + 1]
  end
end

-- The result becomes the parameter's gradient, if any rank had one.
local function take(self, p)
  local at, x = self.of[p], p.tensor
  if at.flag:item() == 0 then return end
  if not x.grad then
    local grad = make.zeros(x:size(), { dtype = x.dtype })
    local st = C.rg_grad_exchange(x._t, grad._t, ref.slot)
    if st ~= 0 then call.fail(st, WHAT) end
  end
  x.grad:copy_(at.piece)
end

--- The pass has failed: nothing of it counts.
function Buckets:drop()
  for i = 1, self.sent do pcall(worlds.wait, self.world, WHAT, self[i].ticket) end
  reset(self)
end

--- The pass is over: send what is not on its way, wait for all, and give the gradients back.
---@param weight number as for complete
function Buckets:finish(weight)
  for i = self.sent + 1, #self do
    for _, p in ipairs(self[i].list) do
      if not self.of[p].there then put(self, p) end
    end
    send(self, self[i], weight)
  end
  for _, bucket in ipairs(self) do
    worlds.wait(self.world, WHAT, bucket.ticket)
    for _, p in ipairs(bucket.list) do take(self, p) end
  end
  reset(self)
end

return Buckets

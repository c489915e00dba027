-- SPDX-License-Identifier: MIT
--- Gradients of a net in buckets: which lies where, and when one is complete.
--
-- Gradients lie in one arena a type, in the order in which rank 0's first backward pass completed
-- them, each from a multiple of 64 bytes on. A bucket is a range of it: the gradients of some
-- parameters, then a flag for each, which says whether any rank had one. Backward passes make
-- gradients there (rg_grad_set_buffer), and a bucket is sent and received in place; only for
-- another type (compress) it is converted into a second tensor and back. Buckets are sent in one
-- order everywhere; what is not there at the end of a pass counts as zero.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'
local worlds = require 'ridge.world'

local WHAT = 'dist.DataParallel'

local ALIGN = 64 -- bytes: as memory that kernels get for a result

local Buckets = class 'dist.Buckets'

local had = ffi.new 'int32_t[1]'

local function reset(self)
  self.sent = 0
  for _, bucket in ipairs(self) do
    bucket.left, bucket.ticket = #bucket.list, nil
    for _, p in ipairs(bucket.list) do self.of[p].there = nil end
  end
end

-- Elements that so many take up, up to where the next ones begin.
local function aligned(count, x)
  local unit = ALIGN / tonumber(C.rg_dtype_bytes(x._t._dtype))
  return math.ceil(count / unit) * unit
end

-- Which parameters are in which bucket, and where.
local function deal(self, list, opts)
  local bucket, most = nil, opts.bucket_mb * 2 ^ 20 / 4
  for _, p in ipairs(list) do
    local x = p.tensor
    local sent = opts.compress ~= 'none' and opts.compress or x.dtype
    if not bucket or bucket.dtype ~= x.dtype or bucket.numbers + x.count > most then
      bucket = { dtype = x.dtype, sent = sent, count = 0, numbers = 0, list = {} }
      self[#self + 1] = bucket
    end
    local first = aligned(bucket.count, x)
    self.of[p] = { bucket = bucket, first = first, copied = 0 }
    bucket.list[#bucket.list + 1] = p
    bucket.count, bucket.numbers = first + x.count, bucket.numbers + x.count
  end
end

-- The arenas, a range of them for each bucket, and in it one for each gradient and each flag.
local function lay_out(self)
  local counts, at = {}, {}
  local device = self[1] and self[1].list[1].tensor.device -- of all of them
  for _, bucket in ipairs(self) do
    local first = counts[bucket.dtype] or 0
    at[bucket] = first
    counts[bucket.dtype] = first + aligned(bucket.count + #bucket.list, bucket.list[1].tensor)
  end
  for dtype, count in pairs(counts) do
    self.arenas[dtype] = ref.outlive(make.zeros(count, { dtype = dtype, device = device }))
  end
  for _, bucket in ipairs(self) do
    local arena = self.arenas[bucket.dtype]
    local n = bucket.count + #bucket.list
    bucket.range = ref.outlive(arena:narrow(1, at[bucket] + 1, n))
    bucket.wire = bucket.range
    if bucket.sent ~= bucket.dtype then
      bucket.wire = ref.outlive(make.zeros(n, { dtype = bucket.sent, device = device }))
    end
    bucket.bytes = bucket.wire.bytes
    for i, p in ipairs(bucket.list) do
      local of = self.of[p]
      of.flag = ref.outlive(bucket.range:narrow(1, bucket.count + i, 1))
      of.piece = ref.outlive(bucket.range:narrow(1, of.first + 1, p.tensor.count))
    end
  end
end

---@param world table
---@param list table parameters, {name =, tensor =}, in the order in which they are sent
---@param opts table bucket_mb, compress, overlap
function Buckets:init(world, list, opts)
  self.world, self.overlap = world, opts.overlap
  self.of = {}     -- by parameter: {bucket, first, flag, piece}
  self.arenas = {} -- by type
  deal(self, list, opts)
  lay_out(self)
  reset(self)
end

local function send(self, bucket, weight)
  local x = bucket.wire
  if x ~= bucket.range then x:copy_(bucket.range) end
  bucket.ticket = worlds.start(self.world, WHAT, { kind = C.RG_GROUP_ALL_REDUCE,
    op = C.RG_GROUP_WEIGHTED, dtype = x._t._dtype, count = x._t._count, weight = weight,
    device = x._t._device,
    ['in'] = x._t._data, out = x._t._data }, x)
end

-- Is a parameter's gradient made in its bucket? That of a part of a larger tensor may be a part of
-- that one's, and gradients on a GPU are copied.
local function is_made_here(of, x)
  local status = C.rg_grad_set_buffer(x._t, of.piece._t) -- each time: gradients may have been off
  if status ~= C.RG_EARG and status ~= C.RG_EDEVICE then call.check(status, WHAT) end
  return status == 0
end

--- Gradients are made in the buckets from here on.
function Buckets:receive()
  for p, of in pairs(self.of) do
    if p.tensor.requires_grad then is_made_here(of, p.tensor) end
  end
end

-- A parameter's gradient is in its bucket behind this: zeros where there is none. It was made
-- there, but for one that was there before the bucket was.
local function put(self, p)
  local of, x = self.of[p], p.tensor
  had[0] = 0
  of.there = true
  of.here = x.requires_grad and is_made_here(of, x)
  if of.here then
    call.check(C.rg_grad_into_buffer(x._t, had), WHAT)
  elseif x.grad then
    had[0] = 1
    of.piece:view(x:size()):copy_(x.grad)
    of.copied = of.copied + of.piece.bytes
  else
    of.piece:zero_()
  end
  of.flag:fill_(had[0])
  of.bucket.left = of.bucket.left - 1
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

-- What is in the bucket is the parameter's gradient, if any rank had one.
local function take(self, p)
  local of, x = self.of[p], p.tensor
  if of.flag:item() == 0 then return end
  if of.here then return call.check(C.rg_grad_from_buffer(x._t), WHAT) end
  if not x.grad then
    local grad = make.zeros(x:size(), { dtype = x.dtype, device = x.device })
    local st = C.rg_grad_exchange(x._t, grad._t, ref.slot)
    if st ~= 0 then call.fail(st, WHAT) end
  end
  x.grad:copy_(of.piece:view(x:size()))
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
    if bucket.wire ~= bucket.range then bucket.range:copy_(bucket.wire) end
    for _, p in ipairs(bucket.list) do take(self, p) end
  end
  reset(self)
end

--- Bytes of gradients that were made elsewhere and copied into a bucket so far.
---@param bucket table
---@return number
function Buckets:copied(bucket)
  local n = 0
  for _, p in ipairs(bucket.list) do
    n = n + self.of[p].copied + tonumber(C.rg_grad_copied(p.tensor._t))
  end
  return n
end

return Buckets

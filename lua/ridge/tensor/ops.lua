-- SPDX-License-Identifier: MIT
--- Operations as tensor methods: those of one element and of two, those made from the records, and
--- what is not regular: copies, conversions, moves, joining.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local elementwise = require 'ridge.tensor.elementwise'
local method = require 'ridge.tensor.method'
local options = require 'ridge.options'
local place = require 'ridge.tensor.place'
local random = require 'ridge.random'
local schema = require 'ridge.tensor.schema'

local M = { methods = elementwise.methods, docs = elementwise.docs, axis = method.axis }

local methods, docs = M.methods, M.docs
local surplus = elementwise.surplus
local slot, wrap, need, settle = ref.slot, ref.wrap, ref.need, call.settle

for _, record in ipairs(schema.records()) do
  if record.method and not methods[record.name] then
    local name, f, doc = method.make(record)
    methods[name], docs[name] = f, doc
  end
end
methods.mm, docs.mm = methods.matmul, docs.matmul

-- -- Copies, types, random fills ----------------------------------------------------------

docs.clone = 'clone(): a contiguous copy'
docs.contiguous = 'contiguous(): itself if it has no gaps, else a copy'
for _, name in ipairs { 'clone', 'contiguous' } do
  local f = C['rg_' .. name]
  methods[name] = function(x, extra)
    if extra ~= nil then surplus(name, '', extra) end
    need(x, name)
    settle()
    local st = f(x._t, slot)
    if st ~= 0 then call.again(st, f, x._t, slot) end
    return wrap(slot[0])
  end
end

docs.to = "to('bf16'), to('cuda:0') or to{dtype =, device =, pinned =}: converted and moved; "
  .. 'itself when nothing changes'

local TO = {
  dtype = { 'string', names = dtype.names, doc = 'element type' },
  device = { 'string', names = { 'cpu', 'auto', 'cuda:0' }, doc = 'where it goes' },
  pinned = { 'boolean', doc = "into memory of the CPU's that a GPU's copies reach by themselves" },
}

local function moved(x, device)
  if x._t._device == device or device == C.RG_PINNED and x.is_pinned then return x end
  settle()
  local st = C.rg_to_device(x._t, device, slot)
  if st ~= 0 then call.again(st, C.rg_to_device, x._t, device, slot) end
  return wrap(slot[0])
end

local function converted(x, code)
  if x._t._dtype == code then return x end
  settle()
  local st = C.rg_cast(x._t, code, slot)
  if st ~= 0 then call.again(st, C.rg_cast, x._t, code, slot) end
  return wrap(slot[0])
end

--- Convert to another element type, or bring to another device.
---@param x Tensor
---@param target string|table 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool',
---  'f8e4m3' (beyond 448 is nan), 'f8e5m2' (beyond 57344 is infinity), 'cpu', 'cuda:0', 'auto' (the
---  first GPU, else the CPU), or {dtype =, device =, pinned =}
---@param more table|nil {pinned = true} beside 'cpu': into pinned memory
---@return Tensor
-- >> ridge.ones(2):to('auto').device
function methods.to(x, target, more, extra)
  if extra ~= nil then surplus('to', 'target, more', extra) end
  need(x, 'to')
  local name, where, pinned = target, nil, nil
  if type(target) == 'table' then
    local opts = options.check(TO, target, 'to')
    name, where, pinned = opts.dtype, opts.device, opts.pinned
  elseif dtype.is_device(target) then
    name, where = nil, target
  end
  if more ~= nil then pinned = options.check({ pinned = TO.pinned }, more, 'to').pinned end
  if name ~= nil and name ~= 'auto' then x = converted(x, dtype.code(name, 'to')) end
  if pinned then return moved(x, place.of({ device = where, pinned = true }, 'to')) end
  return where ~= nil and moved(x, dtype.device(where, 'to')) or x
end

docs.pin = "pin(): a copy in memory of the CPU's that a GPU's copies reach by themselves; itself "
  .. 'when it is there'
--- A copy in pinned memory: copies between it and a GPU are not waited for, so that they go on
--- while others compute.  Whoever reads or writes it on the CPU waits for its own copy.
---@param x Tensor on any device
---@return Tensor on the CPU
-- >> x = ridge.ones(3):pin(); y = x:to 'cuda:0'
function methods.pin(x, extra)
  if extra ~= nil then surplus('pin', '', extra) end
  need(x, 'pin')
  return moved(x, place.pinned 'pin')
end

docs.copy_ = 'copy_(y): write y, broadcast and converted, into this tensor'
--- Write another tensor or a number into this one.
---@param x Tensor
---@param y Tensor|number
---@return Tensor x
function methods.copy_(x, y, extra)
  if extra ~= nil then surplus('copy_', 'y', extra) end
  need(x, 'copy_')
  if type(y) == 'number' then
    call.check(C.rg_fill_(x._t, y), 'copy_')
    return x
  end
  need(y, 'copy_')
  call.check(C.rg_copy_(x._t, y._t), 'copy_')
  return x
end

docs.dropout_ = 'dropout_(p=0.5, generator=nil): dropout, in place'
--- Zeros with probability p, the others scaled by 1/(1-p), in place: with the numbers of dropout.
---@param x Tensor float
---@param p number|nil 0.5 when left out
---@param generator table|nil of ridge.generator; the default stream when left out
---@return Tensor x
-- >> ridge.ones(6):dropout_(0.5)
function methods.dropout_(x, p, generator, extra)
  if extra ~= nil then surplus('dropout_', 'p, generator', extra) end
  need(x, 'dropout_')
  if p == nil then p = 0.5 end
  if type(p) ~= 'number' then
    blame.raise('dropout_: p is a number, got ' .. blame.show(p), 'EARG', 'dropout_')
  end
  call.check(C.rg_dropout_(x._t, p, random.pointer(generator, 'dropout_')), 'dropout_')
  return x
end

methods.zero_ = function(x, extra)
  if extra ~= nil then surplus('zero_', '', extra) end
  call.check(C.rg_fill_(need(x, 'zero_')._t, 0), 'zero_')
  return x
end
docs.zero_ = 'zero_(): set every element to 0'

--- Join tensors along an axis.
---@param list table of tensors
---@param axis number|nil 1 when left out
---@return Tensor
-- >> ridge.concat({ridge.ones(2), ridge.zeros(1)}, 1)
function M.concat(list, axis)
  if type(list) ~= 'table' then blame.raise('concat: a list of tensors is expected') end
  local n = #list
  local pointers = ffi.new('const rg_tensor *[?]', math.max(n, 1))
  for i = 1, n do need(list[i], 'concat') end
  settle()
  for i = 1, n do pointers[i - 1] = list[i]._t end
  local st = C.rg_concat(pointers, n, M.axis(axis or 1, 'concat'), slot)
  if st ~= 0 then call.fail(st) end
  return wrap(slot[0])
end

return M

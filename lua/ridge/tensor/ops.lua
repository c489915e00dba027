-- SPDX-License-Identifier: MIT
--- Operations as tensor methods and operators, bound from the records: elementwise families by
-- name,
-- the others with their arguments counted from 1.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local options = require 'ridge.options'
local place = require 'ridge.tensor.place'
local random = require 'ridge.random'

local M = { methods = {}, docs = {} }

local methods, docs = M.methods, M.docs
local slot, wrap, is, settle = ref.slot, ref.wrap, ref.is, call.settle
local axes_buffer = ffi.new('int32_t[8]')

local need = ref.need

--- An axis as C counts it: 1 is the first, negative counts from the end.
---@param axis number
---@param what string the function asking, for errors
---@return number
function M.axis(axis, what)
  if type(axis) ~= 'number' or axis ~= math.floor(axis) then
    blame.raise(('%s: an axis is a whole number, got %s'):format(what, tostring(axis)), 'EAXIS')
  end
  if axis == 0 then
    blame.raise(('%s: axes count from 1 (the first) or -1 (the last); there is no axis 0'):format(
      what), 'EAXIS')
  end
  return axis > 0 and axis - 1 or axis
end

--- Axes for a reduction into the buffer; nil is all of them.
local function axes_of(axes, what)
  if axes == nil then return 0 end
  if type(axes) == 'number' then axes = { axes } end
  if type(axes) ~= 'table' or #axes > 8 then
    blame.raise(('%s: axes are a number or a list of numbers'):format(what), 'EAXIS')
  end
  for i, axis in ipairs(axes) do axes_buffer[i - 1] = M.axis(axis, what) end
  return #axes
end

--- Facts of every operation, in the order of the records.
---@return table list of {name =, sig =, doc =}
function M.records()
  local list, facts = {}, ffi.new('rg_op_facts')
  for i = 0, C.rg_op_count() - 1 do
    call.check(C.rg_op_facts_of(i, facts))
    list[i + 1] = { name = ffi.string(facts.name), sig = ffi.string(facts.sig),
                    doc = ffi.string(facts.doc), draws = facts.draws == 1 }
  end
  return list
end

-- -- Elementwise families -----------------------------------------------------------------

local function bind_unary(name, doc)
  local f, f_ = C['rg_' .. name], C['rg_' .. name .. '_']
  methods[name] = function(x)
    need(x, name)
    settle()
    local st = f(x._t, slot)
    if st ~= 0 then call.again(st, f, x._t, slot) end
    return wrap(slot[0])
  end
  methods[name .. '_'] = function(x)
    need(x, name .. '_')
    local st = f_(x._t)
    if st ~= 0 then call.again(st, f_, x._t) end
    return x
  end
  docs[name] = doc
  docs[name .. '_'] = doc .. ', in place'
end

local function bad_operand(name, value)
  blame.raise(('%s: a tensor or a number is expected, got %s'):format(name, blame.show(value)),
    'EARG', name)
end

--- A failed call of two operands: of an empty handle C only knows that it is nothing.
local function check_operands(name, x, y)
  if is(x) then need(x, name) end
  if is(y) then need(y, name) end
end

local function number(value, name, what)
  if type(value) ~= 'number' then
    blame.raise(('%s: %s is a number, got %s'):format(name, what, blame.show(value)), 'EARG', name)
  end
  return value
end

local function bind_binary(name, doc)
  local tt, ts = C['rg_' .. name], C['rg_' .. name .. '_scalar']
  local tt_, ts_ = C['rg_' .. name .. '_'], C['rg_' .. name .. '_scalar_']
  methods[name] = function(x, y)
    settle()
    if is(x) then
      if is(y) then
        local st = tt(x._t, y._t, slot)
        if st ~= 0 then
          check_operands(name, x, y)
          call.again(st, tt, x._t, y._t, slot)
        end
      elseif type(y) == 'number' then
        local st = ts(x._t, y, 0, slot)
        if st ~= 0 then
          check_operands(name, x, y)
          call.again(st, ts, x._t, y, 0, slot)
        end
      else
        bad_operand(name, y)
      end
    elseif type(x) == 'number' and is(y) then
      local st = ts(y._t, x, 1, slot)
      if st ~= 0 then
        check_operands(name, x, y)
        call.again(st, ts, y._t, x, 1, slot)
      end
    else
      bad_operand(name, x)
    end
    return wrap(slot[0])
  end
  methods[name .. '_'] = function(x, y)
    need(x, name .. '_')
    if is(y) then
      local st = tt_(x._t, y._t)
      if st ~= 0 then
        check_operands(name .. '_', x, y)
        call.again(st, tt_, x._t, y._t)
      end
    elseif type(y) == 'number' then
      local st = ts_(x._t, y)
      if st ~= 0 then call.again(st, ts_, x._t, y) end
    else
      bad_operand(name .. '_', y)
    end
    return x
  end
  docs[name] = doc
  docs[name .. '_'] = doc .. ', in place'
end

for _, record in ipairs(M.records()) do
  local inputs = record.sig:match('%((.-)%)') or ''
  local has = pcall(function() return C['rg_' .. record.name .. '_scalar'] end)
  if has then
    bind_binary(record.name, record.doc)
  elseif inputs == 'x' and pcall(function() return C['rg_' .. record.name .. '_'] end) then
    bind_unary(record.name, record.doc)
  end
end

-- -- Reductions ---------------------------------------------------------------------------

for _, name in ipairs { 'sum', 'mean', 'prod', 'max', 'min' } do
  local f = C['rg_' .. name]
  methods[name] = function(x, axes, keep)
    need(x, name)
    settle()
    local n = axes_of(axes, name)
    local st = f(x._t, axes_buffer, n, keep and 1 or 0, slot)
    if st ~= 0 then call.again(st, f, x._t, axes_buffer, n, keep and 1 or 0, slot) end
    return wrap(slot[0])
  end
  docs[name] = name .. '(axes, keep): over axes (a number, a list, or all); keep leaves size 1'
end

docs.norm = 'norm(p, axes, keep): the p-norm, p = 2 when left out'
--- The p-norm over axes.
---@param x Tensor
---@param p number|nil 2 when left out; math.huge is the largest magnitude
---@param axes number|table|nil all when left out
---@param keep boolean|nil leave reduced axes with size 1
---@return Tensor
function methods.norm(x, p, axes, keep)
  need(x, 'norm')
  p = p or 2
  number(p, 'norm', 'p')
  settle()
  local n = axes_of(axes, 'norm')
  local st = C.rg_norm(x._t, p, axes_buffer, n, keep and 1 or 0, slot)
  if st ~= 0 then call.again(st, C.rg_norm, x._t, p, axes_buffer, n, keep and 1 or 0, slot) end
  return wrap(slot[0])
end

for _, name in ipairs { 'argmax', 'argmin' } do
  local f = C['rg_' .. name]
  methods[name] = function(x, axis, keep)
    need(x, name)
    settle()
    axis = M.axis(axis or -1, name)
    local st = f(x._t, axis, keep and 1 or 0, slot)
    if st ~= 0 then call.again(st, f, x._t, axis, keep and 1 or 0, slot) end
    return wrap(slot[0])
  end
  docs[name] = name .. '(axis, keep): 0-based positions along an axis, the last when left out'
end

docs.softmax = 'softmax(axis): along an axis, the last when left out'
--- Softmax along an axis.
---@param x Tensor
---@param axis number|nil -1 when left out
---@return Tensor
function methods.softmax(x, axis)
  need(x, 'softmax')
  settle()
  axis = M.axis(axis or -1, 'softmax')
  local st = C.rg_softmax(x._t, axis, slot)
  if st ~= 0 then call.again(st, C.rg_softmax, x._t, axis, slot) end
  return wrap(slot[0])
end

-- -- Products -----------------------------------------------------------------------------

docs.matmul = 'matmul(y): matrix product, batched'
--- Matrix product, batched over leading axes.
---@param x Tensor [... x M x K]
---@param y Tensor [... x K x N]
---@return Tensor [... x M x N]
function methods.matmul(x, y)
  need(x, 'matmul')
  need(y, 'matmul')
  settle()
  local st = C.rg_matmul(x._t, y._t, slot)
  if st ~= 0 then call.again(st, C.rg_matmul, x._t, y._t, slot) end
  return wrap(slot[0])
end
methods.mm = methods.matmul
docs.mm = docs.matmul

docs.svd = 'svd(): U, s, V\' of a matrix'
--- Singular value decomposition.
---@param x Tensor [M x N]
---@return Tensor u [M x k]
---@return Tensor s [k]
---@return Tensor vt [k x N]
function methods.svd(x)
  need(x, 'svd')
  settle()
  local st = C.rg_svd(x._t, slot, slot + 1, slot + 2)
  if st ~= 0 then call.again(st, C.rg_svd, x._t, slot, slot + 1, slot + 2) end
  return wrap(slot[0]), wrap(slot[1]), wrap(slot[2])
end

-- -- Copies, types, random fills ----------------------------------------------------------

docs.clone = 'clone(): a contiguous copy'
docs.contiguous = 'contiguous(): itself if it has no gaps, else a copy'
for _, name in ipairs { 'clone', 'contiguous' } do
  local f = C['rg_' .. name]
  methods[name] = function(x)
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
function methods.to(x, target, more)
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
function methods.pin(x)
  need(x, 'pin')
  return moved(x, place.pinned 'pin')
end

docs.copy_ = 'copy_(y): write y, broadcast and converted, into this tensor'
--- Write another tensor or a number into this one.
---@param x Tensor
---@param y Tensor|number
---@return Tensor x
function methods.copy_(x, y)
  need(x, 'copy_')
  if type(y) == 'number' then
    call.check(C.rg_fill_(x._t, y), 'copy_')
    return x
  end
  need(y, 'copy_')
  call.check(C.rg_copy_(x._t, y._t), 'copy_')
  return x
end

docs.fill_ = 'fill_(value): set every element'
--- Set every element to a number.
---@param x Tensor
---@param value number
---@return Tensor x
function methods.fill_(x, value)
  need(x, 'fill_')
  if type(value) ~= 'number' then bad_operand('fill_', value) end
  call.check(C.rg_fill_(x._t, value), 'fill_')
  return x
end
methods.zero_ = function(x)
  call.check(C.rg_fill_(need(x, 'zero_')._t, 0), 'zero_')
  return x
end
docs.zero_ = 'zero_(): set every element to 0'

for name, defaults in pairs { uniform_ = { 0, 1 }, normal_ = { 0, 1 } } do
  local f = C['rg_' .. name]
  methods[name] = function(x, a, b, generator)
    need(x, name)
    a, b = number(a or defaults[1], name, 'the first'), number(b or defaults[2], name, 'the second')
    call.check(f(x._t, a, b, random.pointer(generator, name)), name)
    return x
  end
end
docs.uniform_ = 'uniform_(lo, hi, generator): random numbers in [lo, hi)'
docs.normal_ = 'normal_(mean, std, generator): normal random numbers'

docs.take = 'take(index): rows by their numbers, from 0'
--- Rows by their numbers.
---@param x Tensor [rows x ...]
---@param index Tensor [...] of an integer type, numbers from 0
---@return Tensor [... of index x ... of a row]
-- >> ridge.arange(0, 5):reshape(3, 2):take(ridge.tensor({2, 0}, {dtype = 'i64'}))
function methods.take(x, index)
  need(x, 'take')
  need(index, 'take')
  settle()
  local st = C.rg_take(x._t, index._t, slot)
  if st ~= 0 then call.again(st, C.rg_take, x._t, index._t, slot) end
  return wrap(slot[0])
end

docs.dropout = 'dropout(p, generator): zeros with probability p, the rest scaled by 1/(1-p)'
--- Zero elements at random and scale the others.
---@param x Tensor
---@param p number|nil 0.5 when left out
---@param generator table|nil a stream of ridge.generator
---@return Tensor
function methods.dropout(x, p, generator)
  need(x, 'dropout')
  p = number(p or 0.5, 'dropout', 'p')
  settle()
  call.check(C.rg_dropout(x._t, p, random.pointer(generator, 'dropout'), slot))
  return wrap(slot[0])
end

--- Join tensors along an axis.
---@param list table of tensors
---@param axis number|nil 1 when left out
---@return Tensor
-- >> ridge.concat({ridge.ones(2), ridge.zeros(1)}, 1)
function M.concat(list, axis)
  if type(list) ~= 'table' then blame.raise('concat: a list of tensors is expected') end
  local n = #list
  local pointers = ffi.new('const rg_tensor *[?]', math.max(n, 1))
  for i = 1, n do pointers[i - 1] = need(list[i], 'concat')._t end
  settle()
  call.check(C.rg_concat(pointers, n, M.axis(axis or 1, 'concat'), slot))
  return wrap(slot[0])
end

return M

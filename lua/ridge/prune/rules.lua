-- SPDX-License-Identifier: MIT
--- What operations do with the labels of ridge.prune.follow: a rule is called with what follows,
--- the node and its inputs, and gives labels to the node's outputs; false where it cannot say.

local Labels = require 'ridge.prune.labels'
local nets = require 'ridge.quant.nets'
local shapes = require 'ridge.prune.rules_shape'

local M = {}

local function copy_of(list) return { unpack(list) } end

-- -- Weights --------------------------------------------------------------------------------------

-- Which rows and which columns of a layer's weight are 0, where it is one of ridge's layers.
local function zeros_of_weight(f, node)
  local module = f.modules[node.module]
  local kind = module and getmetatable(module)
  if kind ~= nets.Linear and kind ~= nets.Conv2d then return {}, {} end
  local w, bias = module.weight:detach(), module.bias
  w = w:reshape(w:size(1), w:size(2), -1):ne(0)
  local rows, columns = w:any({ 2, 3 }):tolist(), w:any({ 1, 3 }):tolist()
  bias = bias and bias:detach():ne(0):tolist()
  local zero_rows, zero_columns = {}, {}
  for i, there in ipairs(rows) do
    zero_rows[i] = (there == false or there == 0)
      and not (bias and bias[i] ~= false and bias[i] ~= 0)
  end
  for i, there in ipairs(columns) do zero_columns[i] = there == false or there == 0 end
  return zero_rows, zero_columns
end

-- Functions of which f(0) is 0, and the others of one number.
local AT_ZERO = {}
for name in ('none neg abs sign square relu relu6 floor ceil round sqrt log1p sin tanh erf gelu '
  .. 'silu trunc expm1 tan asin atan sinh asinh atanh selu mish softsign hardswish cast copy '
  .. 'dropout detach'):gmatch '%S+' do
  AT_ZERO[name] = true
end
local ELSE = 'rsqrt reciprocal exp log cos sigmoid softplus exp2 log2 acos cosh acosh hardsigmoid'

local function made(f, node, x, axis, w, b, zero_rows)
  local y = node.outputs[1]
  local act = node.args.act or 'none'
  if b then f:join(f:labels_of(w, 1), f:labels_of(b, 1)) end
  for i = 1, #x.shape do
    if i ~= axis and f:of(x).axes[i] then f:put(y, i, f:of(x).axes[i]) end
  end
  f:put(y, axis, copy_of(f:labels_of(w, 1)), AT_ZERO[act] and zero_rows or nil)
end

function M.linear(f, node, x, w, b)
  local last = #x.shape
  local zero_rows, zero_columns = zeros_of_weight(f, node)
  local labels = f:labels_of(x, last)
  f:join(f:labels_of(w, 2), labels)
  f:use(f:labels_of(w, 2), f:zeros_of(x, last), zero_columns, f:of(w).axes[2] ~= nil)
  made(f, node, x, last, w, b, zero_rows)
end

function M.conv2d(f, node, x, w, b)
  local axis, groups = node.args.layout == 'nhwc' and 4 or 2, node.args.groups
  local zero_rows, zero_columns = zeros_of_weight(f, node)
  local outputs, inputs, labels = f:labels_of(w, 1), f:labels_of(w, 2), f:labels_of(x, axis)
  local per, each = #inputs, #outputs / groups
  if groups > 1 and per == 1 then -- depthwise: a channel goes with what is made of it
    for i, label in ipairs(outputs) do
      f:join({ label }, { labels[math.floor((i - 1) / each) + 1] })
    end
    f:freeze(w, 'a group has one channel', 2)
  else -- each group lets the same ones go, so that groups stay alike
    local all, zeros = {}, f:zeros_of(x, axis)
    for i = 1, #labels do all[i] = inputs[(i - 1) % per + 1] end
    f:join(all, labels)
    f:use(all, zeros, groups == 1 and zero_columns or nil, f:of(w).axes[2] ~= nil)
    for i = each + 1, #outputs do f:join({ outputs[i] }, { outputs[(i - 1) % each + 1] }) end
  end
  for i = 2, 4 do
    if i ~= axis then f:freeze(x, 'a convolution goes over it', i) end
  end
  made(f, node, x, axis, w, b, zero_rows)
end

-- -- Normalisation --------------------------------------------------------------------------------

local function carry(f, x, y, zero)
  for axis, labels in pairs(f:of(x).axes) do
    f:put(y, axis, labels, zero and f:of(x).zero[axis] or nil)
  end
end

function M.batch_norm(f, node, x, ...)
  local axis = node.args.axis < 0 and #x.shape + 1 + node.args.axis or node.args.axis
  carry(f, x, node.outputs[1], false)
  for i = 1, select('#', ...) do
    local p = select(i, ...)
    if p then f:join(f:labels_of(x, axis), f:labels_of(p, 1)) end
  end
  if not f:of(x).axes[axis] then return end
  local module = f.modules[node.module]
  local weight, bias = module and module.weight, module and module.bias
  if not (weight and bias) then return end
  local off = weight:detach():eq(0):logical_and(bias:detach():eq(0)):to('i32'):tolist()
  local zero = {}
  for i, flag in ipairs(off) do zero[i] = flag == 1 end
  f:put(node.outputs[1], axis, f:of(x).axes[axis], zero)
end

function M.group_norm(f, node, x, w, b)
  carry(f, x, node.outputs[1], false)
  local labels = f:labels_of(x, 2)
  local each = #labels / node.args.groups
  for i, label in ipairs(labels) do -- a group goes as a whole: without a part it is another one
    f:join({ label }, { labels[i - (i - 1) % each] })
  end
  for _, p in ipairs { w, b } do
    if p then f:join(labels, f:labels_of(p, 1)) end
  end
end

function M.layer_norm(f, node, x, ...)
  local why = ('%s is over it, and would be another one without some of it'):format(f:where())
  f:freeze(x, why, #x.shape)
  for i = 1, select('#', ...) do f:freeze((select(i, ...)), why) end
  carry(f, x, node.outputs[1], false)
end

function M.softmax(f, node, x)
  f:freeze(x, ('%s is over it'):format(f:where()), node.args.axis)
  carry(f, x, node.outputs[1], false)
end

-- -- Element by element ---------------------------------------------------------------------------

for name in pairs(AT_ZERO) do
  M[name] = function(f, node, x) carry(f, x, node.outputs[1], true) end
end
for name in ELSE:gmatch '%S+' do
  M[name] = function(f, node, x) carry(f, x, node.outputs[1], false) end
end

-- The axis so far from the last goes together in all inputs; one of one element goes with any.
local function side_by_side(f, node, inputs, back, zero_of)
  local y = node.outputs[1]
  local axis, first, zeros = #y.shape - back, nil, {}
  for k, x in ipairs(inputs) do
    local at = #x.shape - back
    local size = x.shape[at]
    if at >= 1 and size == y.shape[axis] then
      local labels = f:labels_of(x, at)
      if first then f:join(first, labels) end
      first, zeros[k] = first or labels, f:zeros_of(x, at)
    elseif at >= 1 then
      f:freeze(x, ('%s repeats it'):format(f:where()), at)
    end
  end
  local known = false
  for _, label in ipairs(first or {}) do known = known or label ~= Labels.FIXED end
  if known then
    local zero = {}
    for i = 1, #first do zero[i] = zero_of(zeros, i, #inputs) end
    f:put(y, axis, first, zero)
  end
end

local function together(f, node, inputs, zero_of)
  for back = 0, #node.outputs[1].shape - 1 do side_by_side(f, node, inputs, back, zero_of) end
end

local function all_zero(zeros, i, n)
  for k = 1, n do
    if not (zeros[k] and zeros[k][i]) then return false end
  end
  return true
end

local function any_zero(zeros, i, n)
  for k = 1, n do
    if zeros[k] and zeros[k][i] then return true end
  end
  return false
end

local function never() return false end

-- What a number beside a tensor makes of 0.
local SCALAR = { add = function(v) return v == 0 end, sub = function(v) return v == 0 end,
  mul = function() return true end, div = function(v) return v ~= 0 end,
  maximum = function(v) return v <= 0 end, minimum = function(v) return v >= 0 end,
  pow = function(v) return v > 0 end }
local BINARY = { add = all_zero, sub = all_zero, mul = any_zero, maximum = all_zero,
  minimum = all_zero }

for name in ('add sub mul div pow maximum minimum remainder fmod floor_divide trunc_divide atan2 '
  .. 'prelu elu celu threshold eq ne lt le gt ge logical_and logical_or'):gmatch '%S+' do
  M[name] = function(f, node, x, y)
    if y then return together(f, node, { x, y }, BINARY[name] or never) end
    local at = SCALAR[name]
    carry(f, x, node.outputs[1],
      at ~= nil and node.args.reversed == 0 and at(node.args.value))
  end
end

function M.where(f, node, cond, x, y) together(f, node, { cond, x, y }, never) end

function M.fill() end

-- -- The rest -------------------------------------------------------------------------------------

for _, name in ipairs { 'max_pool2d', 'avg_pool2d' } do
  M[name] = function(f, node, x)
    local axis = node.args.layout == 'nhwc' and 4 or 2
    for i = 2, 4 do
      if i ~= axis then f:freeze(x, 'pooling goes over it', i) end
    end
    f:put(node.outputs[1], axis, f:of(x).axes[axis], f:of(x).zero[axis])
  end
end

-- Reductions let nothing go along what they go over.
for _, name in ipairs { 'sum', 'mean', 'max', 'min', 'prod', 'norm' } do
  M[name] = function(f, node, x)
    local over, to = {}, 0
    for _, axis in ipairs(node.args.axes or {}) do over[axis] = true end
    if not next(over) then return false end
    for axis = 1, #x.shape do
      if over[axis] then
        f:freeze(x, ('%s goes over it'):format(f:where()), axis)
        to = to + (node.args.keep and 1 or 0)
      else
        to = to + 1
        f:put(node.outputs[1], to, f:of(x).axes[axis], f:of(x).zero[axis])
      end
    end
  end
end

function M.take(f, node, w, index)
  f:freeze(w, 'rows of a table are looked up by number', 1)
  f:put(node.outputs[1], #index.shape + 1, f:of(w).axes[2])
end

-- All heads as [q | k | v], each head by head: a head goes as a whole.
function M.heads(f, node, all)
  local last = #all.shape
  local labels, heads = f:labels_of(all, last), node.args.heads
  local n = #labels / 3
  local each, out, zero = n / heads, {}, {}
  local zeros = f:zeros_of(all, last)
  for i = 1, n do
    local first = labels[i - (i - 1) % each]
    for part = 0, 2 do f:join({ first }, { labels[part * n + i] }) end
    out[i], zero[i] = first, zeros[2 * n + i] or false -- what is added up is v
  end
  f:put(node.outputs[1], last, out, zero)
end

function M.attention(f, node, q, k, v)
  local last, why = #q.shape, 'scores are sums over it'
  f:freeze(q, why, last)
  f:freeze(k, why, last)
  for axis = 1, last do
    if axis >= last - 1 then
      f:freeze(k, why, axis)
      if axis == last - 1 then f:freeze(v, why, axis) end
    else
      f:join(f:labels_of(q, axis), f:labels_of(k, axis))
      f:join(f:labels_of(q, axis), f:labels_of(v, axis))
    end
  end
  for axis = 1, last - 1 do f:put(node.outputs[1], axis, f:of(q).axes[axis]) end
  f:put(node.outputs[1], last, f:of(v).axes[last], f:of(v).zero[last])
end

-- What comes in may be narrower; states keep their size.
function M.recurrent(f, _, x, _, _, w, b, wx, bx)
  if not wx then return false end
  f:join(f:labels_of(wx, 2), f:labels_of(x, 3))
  f:use(f:labels_of(wx, 2), f:zeros_of(x, 3), nil, f:of(wx).axes[2] ~= nil)
  local why = ('%s has states of it'):format(f:where())
  f:freeze(wx, why, 1)
  for _, value in ipairs { w, b, bx } do f:freeze(value, why) end
end

function M.matmul(f, node, a, b)
  local n, m = #a.shape, #b.shape
  if n < 2 or m < 2 then return false end
  f:join(f:labels_of(a, n), f:labels_of(b, m - 1))
  local zero, other = {}, f:zeros_of(b, m - 1)
  for i, flag in pairs(f:zeros_of(a, n)) do zero[i] = flag or other[i] end
  f:use(f:labels_of(a, n), zero, other, false)
  local y = node.outputs[1]
  for back = 2, #y.shape - 1 do side_by_side(f, node, { a, b }, back, never) end
  f:put(y, #y.shape - 1, f:of(a).axes[n - 1], f:of(a).zero[n - 1])
  f:put(y, #y.shape, f:of(b).axes[m], f:of(b).zero[m])
end

for name, rule in pairs(shapes) do M[name] = rule end

return M

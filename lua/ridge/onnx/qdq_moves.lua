-- SPDX-License-Identifier: MIT
--- What moves bytes or compares them, averages them, joins them, or gives them another scale,
--- between DequantizeLinear and QuantizeLinear: bytes stay bytes. Where the scale in front is that
--- behind, what only moves them is done to the bytes themselves; which it is, is asked when it is
--- called, and where it is not the nodes are computed one by one.

local qdq = require 'ridge.onnx.qdq_search'

local KINDS = {}

-- Bytes in front of an operator and behind it, without an activation between: { x, y_scale, dtype,
-- y_zero }, and the nodes.
local function between(search, n, gone)
  local x = search:bytes(n.inputs[1])
  local found, trial, parts = { act = 'none', x = x }, {}, { x and x.node, n }
  if not x or n.outputs[2] and n.outputs[2] ~= '' then return nil end
  search:behind(n.outputs[1], trial, found, parts)
  if not found.dtype or found.act ~= 'none' or found.dtype ~= x.dtype
    or found.y_zero ~= x.zero then
    return nil
  end
  for each in pairs(trial) do gone[each] = true end
  return found, parts
end

local MOST = 8 -- inputs of an operator here

-- An operator on bytes, given their scales behind its own inputs.
local function on_bytes(search, n, gone, run)
  local found, parts = between(search, n, gone)
  if not found then return nil end
  local inputs, count = { found.x.x }, math.max(#n.inputs, MOST)
  for i = 2, count do inputs[i] = n.inputs[i] or '' end
  inputs[count + 1], inputs[count + 2] = found.x.scale, found.y_scale
  local same = qdq.same()
  return qdq.either(n, inputs, parts, search.model.fixed, function(own, ...)
    local list = { ... }
    if not same(list[count + 1], list[count + 2]).yes then return nil end
    return run(own, found.x.zero, unpack(list, 1, count))
  end)
end

for name in ([[DepthToSpace Flatten Identity MaxPool Reshape Slice SpaceToDepth Squeeze Transpose
  Unsqueeze]]):gmatch '%a+' do
  KINDS[name] = function(search, n, gone)
    local run = type(n.entry) == 'table' and n.entry.run or n.entry
    return on_bytes(search, n, gone, function(own, _, ...) return run(own, ...) end)
  end
end

-- Halves go to the even byte, as in nets of ridge.quant; nodes one by one round what is above the
-- byte that stands for 0, which is one step from that where that byte is odd.
function KINDS.AveragePool(search, n, gone)
  local run = n.entry
  return on_bytes(search, n, gone, function(own, zero, x)
    own.byte = zero -- of nothing: the average is one of bytes, where there is such a call
    local y = run(own, x)
    own.byte = nil
    return y
  end)
end

function KINDS.GlobalAveragePool(search, n, gone)
  return on_bytes(search, n, gone, function(_, zero, x)
    local shape = x.shape
    if #shape ~= 4 or x.count == 0 then return nil end
    return require('ridge').scaled_pool2d(x, { shape[3], shape[4] }, { average = true,
      x_zero = zero })
  end)
end

-- Bytes of one scale as those of another; what they are, where it is the same.
local function again(from, found)
  local same = qdq.same()
  local kept = found.act == 'none' and from.dtype == found.dtype and from.zero == found.y_zero
  return function(x, scale, y_scale)
    if kept and same(scale, y_scale).yes then return x end
    return require('ridge').scaled_add(x, nil, scale, nil, { activation = found.act,
      dtype = found.dtype, y_scale = y_scale, a_zero = from.zero,
      y_zero = found.y_zero })
  end
end

function KINDS.Concat(search, n, gone)
  local found, trial, parts, inputs, ways = { act = 'none' }, {}, {}, {}, {}
  local count = #n.inputs
  for i, name in ipairs(n.inputs) do
    local x = search:bytes(name)
    if not x then return nil end
    inputs[i], inputs[count + i], ways[i] = x.x, x.scale, x
  end
  search:behind(n.outputs[1], trial, found, parts)
  if not found.dtype then return nil end
  for each in pairs(trial) do gone[each] = true end
  inputs[2 * count + 1] = found.y_scale
  for i, from in ipairs(ways) do ways[i] = again(from, found) end
  local run = n.entry
  return qdq.node(n, inputs, parts[#parts].outputs[1], function(own, ...)
    local list = { ... }
    for i = 1, count do list[i] = ways[i](list[i], list[count + i], list[2 * count + 1]) end
    return run(own, unpack(list, 1, count))
  end)
end

-- Bytes that get another scale, and nothing else happens to them but an activation.
local function rescaled(search, n, gone, name, found, parts)
  local x, trial = search:bytes(n.inputs[1]), {}
  if not x then return nil end
  if n.op == 'QuantizeLinear' then
    search:behind(name, trial, found, parts)
    if parts[#parts] ~= n then return nil end
  else
    search:behind(name, trial, found, parts)
  end
  if not found.dtype then return nil end
  for each in pairs(trial) do gone[each] = true end
  local way = again(x, found)
  return qdq.node(n, { x.x, x.scale, found.y_scale }, parts[#parts].outputs[1],
    function(_, bytes, scale, y_scale) return way(bytes, scale, y_scale) end)
end

function KINDS.Relu(search, n, gone)
  return rescaled(search, n, gone, n.outputs[1], { act = 'relu' }, {})
end

function KINDS.QuantizeLinear(search, n, gone)
  return rescaled(search, n, gone, n.inputs[1], { act = 'none' }, {})
end

return KINDS

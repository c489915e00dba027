-- SPDX-License-Identifier: MIT
--- ONNX's recurrent layers, place by place. Gates are i o f c (LSTM), z r h (GRU), in this order.

local ridge = require 'ridge'
local kit = require 'ridge.onnx.ops.kit'
local record = require 'ridge.onnx.ops.record'

local M = {}

-- -- Activations --------------------------------------------------------------------------------

local ACTS = {
  relu = function(x) return x:relu() end,
  tanh = function(x) return x:tanh() end,
  sigmoid = function(x) return x:sigmoid() end,
  softplus = function(x) return x:softplus() end,
  softsign = function(x) return x / (x:abs() + 1) end,
  affine = function(x, alpha, beta) return x * (alpha or 1) + (beta or 0) end,
  leakyrelu = function(x, alpha) return x:relu() - x:neg():relu() * (alpha or 0.01) end,
  thresholdedrelu = function(x, alpha) return x * x:gt(alpha or 1):to(x.dtype) end,
  scaledtanh = function(x, alpha, beta) return (x * (beta or 1)):tanh() * (alpha or 1) end,
  hardsigmoid = function(x, alpha, beta)
    return (x * (alpha or 0.2) + (beta or 0.5)):maximum(0):minimum(1)
  end,
  elu = function(x, alpha) return x:relu() + (x:minimum(0):exp() - 1) * (alpha or 1) end,
}

-- The functions of each direction, a list of lists.
local function activations(n, defaults, directions)
  local names, out = n:strings 'activations', {}
  local alpha, beta = n:floats 'activation_alpha' or {}, n:floats 'activation_beta' or {}
  for d = 1, directions do
    out[d] = {}
    for i = 1, #defaults do
      local at = (d - 1) * #defaults + i
      local name = names and names[at] or defaults[i]
      local f = ACTS[name:lower()]
      if not f then n:fail("there is no activation '%s'", name) end
      out[d][i] = function(x) return f(x, alpha[at], beta[at]) end
    end
  end
  return out
end

-- -- Cells --------------------------------------------------------------------------------------

-- Each cell: z what the input gives, r the state's weights, rb their bias; returns the state.
local CELLS = {}

CELLS.RNN = { gates = 1, acts = { 'Tanh' }, step = function(c, z, h)
  return c.act[1](c.clip(z + h:matmul(c.r) + c.rb))
end }

CELLS.LSTM = { gates = 4, acts = { 'Sigmoid', 'Tanh', 'Tanh' }, step = function(c, z, h, cell)
  local size = c.size
  local all = z + h:matmul(c.r) + c.rb
  local function gate(k) return all:narrow(2, (k - 1) * size + 1, size) end
  local i, o, f, g = gate(1), gate(2), gate(3), gate(4)
  if c.peep then i, f = i + cell * c.peep[1], f + cell * c.peep[3] end
  i, g = c.act[1](c.clip(i)), c.act[2](c.clip(g))
  f = c.forget and 1 - i or c.act[1](c.clip(f))
  local new = f * cell + i * g
  if c.peep then o = o + new * c.peep[2] end
  return c.act[1](c.clip(o)) * c.act[3](new), new
end }

CELLS.GRU = { gates = 3, acts = { 'Sigmoid', 'Tanh' }, step = function(c, z, h)
  local size = c.size
  local function part(x, k, count)
    return x:narrow(x.ndim, (k - 1) * size + 1, (count or 1) * size)
  end
  local both = part(z, 1, 2) + h:matmul(part(c.r, 1, 2)) + part(c.rb, 1, 2)
  both = c.act[1](c.clip(both))
  local update, reset = part(both, 1), part(both, 2)
  local new
  if c.after then
    new = part(z, 3) + reset * (h:matmul(part(c.r, 3)) + part(c.rb, 3))
  else
    new = part(z, 3) + (reset * h):matmul(part(c.r, 3)) + part(c.rb, 3)
  end
  new = c.act[2](c.clip(new))
  return (1 - update) * new + update * h
end }

-- -- A layer ------------------------------------------------------------------------------------

-- One direction over x [time x batch x inputs]; gives y [time x batch x size] and the last states.
local function run(cell, c, x, w, wb, h, extra, backward)
  local time, batch = x.shape[1], x.shape[2]
  local all = (x:reshape(time * batch, -1):matmul(w:t()) + wb):reshape(time, batch, -1)
  local list = {}
  for step = 1, time do
    local t = backward and time + 1 - step or step
    local new, new_extra = cell.step(c, all:select(1, t), h, extra)
    local here = new
    if c.lengths then -- behind a sequence's end its state stays, and what it gives is nothing
      local on = c.lengths:gt(t - 1)
      new, here = ridge.where(on, new, h), ridge.where(on, new, new * 0)
      if new_extra then new_extra = ridge.where(on, new_extra, extra) end
    end
    h, extra = new, new_extra
    list[t] = here:unsqueeze(1)
  end
  return ridge.concat(list, 1), h, extra
end

-- ONNX's gates in ridge's order: i o f c to i f c o, z r h to r z h.
local ORDER = { LSTM = { 1, 3, 4, 2 }, GRU = { 2, 1, 3 } }

local function in_order(kind, x, size)
  local list = {}
  for i, gate in ipairs(ORDER[kind]) do list[i] = x:narrow(1, (gate - 1) * size + 1, size) end
  return ridge.concat(list, 1)
end

-- Is it a layer that ridge has?
local function is_own(kind, n, cell, x, given)
  if kind == 'GRU' and n:int('linear_before_reset', 0) == 0 or kind == 'RNN' then return false end
  for i, name in ipairs(n:strings 'activations' or {}) do
    if name ~= cell.acts[(i - 1) % #cell.acts + 1] then return false end
  end
  return not given.lengths and not given.peep and not n:has 'clip' and x.shape[1] > 0
    and n:int('input_forget', 0) == 0 and record.alike(x)
end

local function own(kind, x, w, r, b, h, c, size, backwards)
  local gates = CELLS[kind].gates
  local function bias(k)
    return b and in_order(kind, b:narrow(1, k * gates * size + 1, gates * size), size)
  end
  local y, last, last_c = record.recurrent(kind, x:transpose(1, 2), h:unsqueeze(1),
    c and c:unsqueeze(1), in_order(kind, w, size), bias(0), in_order(kind, r, size), bias(1),
    backwards)
  return y:transpose(1, 2), last:select(1, 1), last_c and last_c:select(1, 1)
end

local function layer(kind, n, x, w, r, b, lengths, h0, c0, peep)
  local cell, layout = CELLS[kind], n:int('layout', 0)
  if layout == 1 then
    x = x:transpose(1, 2)
    h0, c0 = h0 and h0:transpose(1, 2), c0 and c0:transpose(1, 2)
  end
  local direction, directions = n:string('direction', 'forward'), w.shape[1]
  local size, batch = n:int('hidden_size', r.shape[3]), x.shape[2]
  local acts = activations(n, cell.acts, directions)
  local most = n:has 'clip' and n:float 'clip'
  local ys, hs, cs = {}, {}, {}
  for d = 1, directions do
    local bias = b and b:select(1, d)
    local zero = kit.full(0, { batch, size }, x)
    local c = { size = size, act = acts[d], r = r:select(1, d):t(),
      rb = bias and bias:narrow(1, cell.gates * size + 1, cell.gates * size)
        or kit.full(0, { cell.gates * size }, x),
      clip = function(v) return most and v:minimum(most):maximum(-most) or v end,
      forget = n:int('input_forget', 0) == 1, after = n:int('linear_before_reset', 0) == 1,
      lengths = lengths and lengths:reshape(batch, 1) }
    if peep then
      c.peep = {}
      for k = 1, 3 do c.peep[k] = peep:select(1, d):narrow(1, (k - 1) * size + 1, size) end
    end
    local h, c1 = h0 and h0:select(1, d) or zero,
      kind == 'LSTM' and (c0 and c0:select(1, d) or zero) or nil
    local backwards = direction == 'reverse' or d == 2
    if is_own(kind, n, cell, x, { lengths = lengths, peep = peep }) then
      ys[d], hs[d], cs[d] = own(kind, x, w:select(1, d), r:select(1, d), bias, h, c1, size,
        backwards)
    else
      ys[d], hs[d], cs[d] = run(cell, c, x, w:select(1, d),
        bias and bias:narrow(1, 1, cell.gates * size) or 0, h, c1, backwards)
    end
    ys[d], hs[d] = ys[d]:unsqueeze(2), hs[d]:unsqueeze(1)
    cs[d] = cs[d] and cs[d]:unsqueeze(1)
  end
  local y, h = ridge.concat(ys, 2), ridge.concat(hs, 1)
  local last = cs[1] and ridge.concat(cs, 1)
  if layout == 1 then
    y, h = y:permute(3, 1, 2, 4), h:transpose(1, 2)
    last = last and last:transpose(1, 2)
  end
  return y, h, last
end

for kind in pairs(CELLS) do
  M[kind] = function(n, ...) return layer(kind, n, ...) end
end

return M

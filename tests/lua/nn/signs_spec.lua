-- SPDX-License-Identifier: MIT
-- The three forms of a sketched layer's fixed signs: the same signs, results and gradients, on the
-- CPU and on a simulated device.
local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local nn = ridge.nn
local simulated = dofile 'tests/lua/simulated.lua'

local DEVICES = { 'cpu', simulated.open() and 'sim:0' or nil }
local FORMS = { 'stored', 'bits', 'seed' }

-- n_in, n_out, terms, rank: odd numbers of columns in both matrices of signs, and whole eights,
-- which tensor cores take.
local SHAPES = { { 7, 1, 1, 1 }, { 129, 7, 1, 7 }, { 8, 8, 2, 4 }, { 33, 31, 1, 31 },
  { 31, 33, 3, 11 }, { 1, 127, 1, 127 }, { 128, 128, 2, 64 }, { 127, 129, 3, 43 },
  { 300, 300, 3, 20 }, { 16, 9, 3, 100 }, { 40, 304, 2, 68 } }

-- Of the size of the result: a few units in the last place of what each type computes in.  Stored
-- signs are +-1/sqrt(R) rounded to f32, in f64 as well.
local BOUND = { f64 = 2 ^ -23, f32 = 2e-6, f16 = 2 ^ -9, bf16 = 2 ^ -6 }

local function numbers(rows, cols)
  return ridge.randn(rows, cols, { generator = ridge.generator(3) })
end

local function layer_of(form, shape, more)
  local opts = { num_terms = shape[3], low_rank = shape[4], seed = 11, form = form, warn = false }
  for key, value in pairs(more or {}) do opts[key] = value end
  return nn.SKLinear(shape[1], shape[2], opts)
end

local function off(y, wanted)
  local size = wanted:to('f64'):norm():item()
  return (y:to 'f64' - wanted:to 'f64'):norm():item() / (size > 0 and size or 1)
end

-- Results of an earlier call are no parts of this one.
describe('parts of a sketch', function()
  it('are as many as its form has', function()
    local x = numbers(2, 2)
    for form, parts in pairs { stored = { 1, 2 }, bits = { 1, 2, 3, 4 }, seed = { 1, 2, 3 } } do
      ref.slot[0] = x._t
      local found, layer = {}, layer_of(form, { 16, 8, 1, 4 })
      for i in pairs(layer._parts) do found[#found + 1] = i end
      table.sort(found)
      assert.same(parts, found, form)
      ref.slot[0] = nil
    end
  end)
end)

-- Bits of a matrix of a seed tensor, by the operation alone.
local function bits_of(seed, matrix, rows, cols)
  local slot = ffi.new('rg_tensor *[1]')
  call.check(C.rg_sign_bits(seed._t, matrix, rows, cols, slot))
  return ref.wrap(slot[0])
end

-- As a list of rows of true and false.
local function signs_of(bits, cols)
  local rows = {}
  for i, row in ipairs(bits:to('cpu'):tolist()) do
    rows[i] = {}
    for j = 0, cols - 1 do
      rows[i][j + 1] = math.floor(row[math.floor(j / 8) + 1] / 2 ^ (j % 8)) % 2 == 1
    end
  end
  return rows
end

-- The share of places where two lists of rows agree.
local function agreement(a, b)
  local same, n = 0, 0
  for i, row in ipairs(a) do
    for j, sign in ipairs(row) do
      same, n = same + (sign == b[i][j] and 1 or 0), n + 1
    end
  end
  return same / n
end

-- The result and the gradients of one pass, on the CPU again.
local function pass(layer, x)
  layer:train()
  x = x:detach():clone():requires_grad_()
  local y = layer(x)
  y:backward(numbers(unpack(y:size())):to(y.dtype):to(y.device))
  local found = { y = y:detach(), x = x.grad }
  for _, name in ipairs { 'S1s', 'S2s', 'bias' } do found[name] = layer[name].grad end
  -- with stored signs the whole factors have the gradients: S1s is a view of one of them
  for name, value in pairs(found) do found[name] = value:to 'cpu' end
  return found
end

describe('fixed signs', function()
  it('are the same in every form', function()
    for _, shape in ipairs(SHAPES) do
      local n_in, n_out, width = shape[1], shape[2], shape[3] * shape[4]
      local stored, bits, seed = layer_of('stored', shape), layer_of('bits', shape),
        layer_of('seed', shape)
      assert.equal(11, seed.U_seed:item())
      assert.is_true(bits_of(seed.U_seed, 1, width, n_out):equal(bits.U1s_bits))
      assert.is_true(bits_of(seed.U_seed, 2, n_in, width):equal(bits.U2s_bits))
      local u1 = signs_of(bits.U1s_bits, n_out)
      for i, row in ipairs(stored.U1s:reshape(width, n_out):tolist()) do
        for j, v in ipairs(row) do
          assert.equal(u1[i][j], v > 0)
          assert.near(shape[4] ^ -0.5, math.abs(v), 1e-7)
        end
      end
      local u2 = signs_of(bits.U2s_bits, width)
      for t, term in ipairs(stored.U2s:tolist()) do
        for i, row in ipairs(term) do
          for j, v in ipairs(row) do
            assert.equal(u2[i][(t - 1) * shape[4] + j], v > 0)
          end
        end
      end
      assert.is_true(stored.S1s:equal(seed.S1s) and stored.S2s:equal(seed.S2s))
      assert.is_true(stored.bias:equal(seed.bias))
      assert.is_true(off(seed:effective_weight(), stored:effective_weight()) == 0)
    end
  end)

  for _, device in ipairs(DEVICES) do
    for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
      it(('give the same results and gradients in every form: %s, %s'):format(dtype, device),
        function()
          for _, shape in ipairs(SHAPES) do
            local x = numbers(5, shape[1]):to(dtype):to(device)
            local found = {}
            for _, form in ipairs(FORMS) do
              found[form] = pass(layer_of(form, shape, { activation = 'gelu' }):to(dtype)
                :to(device), x)
            end
            for name, wanted in pairs(found.stored) do
              local what = ('%s %s'):format(table.concat(shape, ' '), name)
              assert.is_true(found.seed[name]:equal(found.bits[name]), what)
              assert.is_true(off(found.seed[name], wanted) <= BOUND[dtype],
                ('%s: off by %g'):format(what, off(found.seed[name], wanted)))
            end
          end
        end)
    end

    it('follow the seed that a plan finds in the tensor: ' .. device, function()
      for _, shape in ipairs { { 40, 48, 2, 8 }, { 33, 31, 3, 5 } } do
        for _, dtype in ipairs { 'f32', 'bf16', 'f64' } do
          local layer = layer_of('seed', shape):to(dtype):to(device):train()
          local x = numbers(9, shape[1]):to(dtype):to(device)
          local function step()
            for _, p in ipairs(layer:parameters()) do
              if p.trainable then p.tensor:zero_grad() end
            end
            local y = layer(x)
            y:square():sum():backward()
            return y:detach()
          end
          step() -- workspace is not taken while a graph is captured
          local y
          local plan = ridge.capture(function()
            y = step()
            return y
          end)
          local before = plan():clone()
          layer.U_seed:fill_(2 ^ 40 + 5)
          local after = plan():clone()
          local grad = layer.S1s.grad:clone()
          assert.is_true(after:equal(step()))
          assert.is_true(grad:equal(layer.S1s.grad))
          assert.is_true(off(after:to 'cpu', before:to 'cpu') > 0.5)
          layer.U_seed:fill_(11)
          assert.is_true(plan():equal(before))
        end
      end
    end)
  end

  it('take no memory but the seed', function()
    local shape = { 300, 129, 2, 20 }
    local layer = layer_of('seed', shape)
    local values = 2 * 20 * (300 + 129) + 129
    assert.equal(4 * values + 8, layer:facts().stored_bytes)
    assert.equal(2 * values + 8, layer:to('bf16'):facts().stored_bytes)
    local bytes, names = 0, {}
    for i, p in ipairs(layer.params) do
      bytes, names[i] = bytes + p.tensor.bytes, p.name
    end
    assert.equal(2 * values + 8, bytes)
    assert.same({ 'S1s', 'U_seed', 'S2s', 'bias' }, names)
    -- and nothing is kept from a forward
    layer = layer_of('seed', shape)
    local x = numbers(4, 300)
    layer(x)
    assert.equal(0, layer:facts().packed_bytes)
    assert.is_truthy(tostring(layer):find('signs seed', 1, true))
    assert.equal('seed', layer:facts().form)
  end)

  for _, device in ipairs(DEVICES) do
    it('take no memory for gradients: ' .. device, function()
      local function live()
        collectgarbage()
        collectgarbage()
        return ridge.memory.stats(device).live
      end
      for _, shape in ipairs(SHAPES) do
        for _, dtype in ipairs { 'f32', 'f64', 'bf16' } do
          local layer = layer_of('stored', shape):to(dtype):to(device):train()
          local x = numbers(4, shape[1]):to(dtype):to(device)
          layer(x):sum():backward() -- what is kept with the weights is there now
          local wanted = 0
          for _, p in ipairs(layer:parameters()) do
            p.tensor:zero_grad()
            if p.trainable then wanted = wanted + p.tensor.bytes end
          end
          local before = live()
          layer(x):sum():backward()
          local what = table.concat(shape, ' ') .. dtype
          local took = live() - before
          -- as many bytes as what is trained has: blocks of a device are of 256 or more
          local slack = device == 'cpu' and 0 or 3 * 512
          assert.is_true(took >= wanted and took <= wanted + slack, ('%s: %d bytes, %d are trained')
            :format(what, took, wanted))
          assert.is_nil(layer.U1s.grad)
          assert.is_nil(layer.U2s.grad)
          assert.is_false(layer.U2s.requires_grad)
        end
      end
    end)
  end

  it('leave what is trained beside them its gradients, wherever they are read', function()
    for _, shape in ipairs(SHAPES) do
      local stored, bits = layer_of('stored', shape):train(), layer_of('bits', shape):train()
      local x = numbers(4, shape[1])
      local function both(f, what)
        for _, name in ipairs { 'S1s', 'S2s' } do
          for _, layer in ipairs { stored, bits } do layer[name]:zero_grad() end
        end
        for _ = 1, 2 do -- the second adds to the first
          for _, layer in ipairs { stored, bits } do f(layer):backward() end
        end
        for _, name in ipairs { 'S1s', 'S2s' } do
          local a, b = stored[name].grad, bits[name].grad
          assert.equal(b ~= nil, a ~= nil, what)
          if a then assert.is_true(off(a, b) <= 1e-5, what .. name) end
        end
      end
      both(function(l) return l(x):square():sum() end, 'the layer ')
      both(function(l) return l(x):sum() + l.S1s:square():sum() + l.S2s[1]:sum() end, 'a penalty ')
      both(function(l) return l.S1s:transpose(1, 2):reshape(-1):narrow(1, 1, 1):sum() end, 'one ')
      local function given(l)
        return ridge.grad(l(x):square():sum(), { l.S1s, l.S2s }, { create = true })
      end
      local mine, theirs = { given(stored) }, { given(bits) }
      for i = 1, 2 do assert.is_true(off(mine[i], theirs[i]) <= 1e-5) end
      both(function(l)
        local s1, s2 = given(l)
        return s1:square():sum() + s2:square():sum()
      end, 'a gradient of gradients ')
      -- and are trained alike
      local nets = { stored, bits }
      for i, net in ipairs(nets) do
        local optimizer = ridge.optim.Adam(net, { lr = 1e-2 })
        for _ = 1, 3 do
          optimizer:zero_grad()
          net(x):square():sum():backward()
          optimizer:clip(1)
          optimizer:step()
        end
        nets[i] = net.S1s:detach()
      end
      assert.is_true(off(nets[1], nets[2]) <= 1e-4)
    end
  end)

  it('get gradients where they are asked for', function()
    local layer, x = layer_of('stored', { 33, 31, 3, 5 }):train(), numbers(4, 33)
    layer(x):sum():backward()
    assert.error_matches(function() layer.U2s:requires_grad_() end, 'another part')
    layer.S1s:zero_grad()
    layer.U2s:requires_grad_()
    layer(x):sum():backward()
    assert.equal(0, layer.U2s.grad:abs():max():item()) -- the rule of the layer gives none
    local twice = layer.U2s * 2
    twice:sum():backward()
    assert.equal(2, layer.U2s.grad:mean():item())
  end)

  it('are fair coins, each matrix and each seed its own', function()
    local function drawn(seed, matrix)
      return signs_of(bits_of(ridge.tensor({ seed }, { dtype = 'i64' }), matrix, 200, 200), 200)
    end
    local u1, u2, other = drawn(7, 1), drawn(7, 2), drawn(8, 1)
    local bound = 4 * 0.5 / 200 -- four standard deviations of a mean of 40000
    local pluses, below, beside = {}, {}, {}
    for i, row in ipairs(u1) do
      pluses[i], below[i], beside[i] = {}, u1[i % 200 + 1], {}
      for j = 1, 200 do pluses[i][j], beside[i][j] = true, row[j % 200 + 1] end
    end
    assert.near(0.5, agreement(u1, pluses), bound)
    for _, against in ipairs { u2, other, below, beside } do
      assert.near(0.5, agreement(u1, against), bound)
    end
    -- across the edge of a block, and in its bits far from one another
    for _, apart in ipairs { 8, 32, 127, 128 } do
      local moved = {}
      for i, row in ipairs(u1) do
        moved[i] = {}
        for j = 1, 200 do moved[i][j] = row[(j - 1 + apart) % 200 + 1] end
      end
      assert.near(0.5, agreement(u1, moved), bound)
    end
  end)

  it('make U U\' the identity on average', function()
    local sum = ridge.zeros(24, 24)
    for seed = 1, 200 do
      local u = layer_of('stored', { 24, 24, 1, 24 }, { seed = seed }).U1s[1]
      sum:add_(u:t():matmul(u) / 200)
    end
    -- off the diagonal a mean of 200 * 24 signs
    for i, row in ipairs(sum:tolist()) do
      for j, v in ipairs(row) do
        if i == j then assert.near(1, v, 1e-4) else assert.near(0, v, 5 / (200 * 24) ^ 0.5) end
      end
    end
  end)

  it('are saved and loaded as a seed', function()
    local path = os.tmpname()
    local shape = { 20, 33, 2, 3 }
    local layer, x = layer_of('seed', shape, { seed = 2 ^ 52 + 1 }), numbers(4, 20)
    assert.equal(2 ^ 52 + 1, layer.U_seed:item())
    assert.equal(2 ^ 52 + 1, layer:clone():to('bf16'):to('f32').U_seed:item())
    assert.is_true(layer:clone()(x):equal(layer(x)))
    ridge.save(path, layer:state())
    local again = layer_of('seed', shape, { seed = 5 })
    assert.is_false(again(x):equal(layer(x)))
    again:load_state(ridge.load(path))
    os.remove(path)
    assert.is_true(again(x):equal(layer(x)))
    assert.equal(2 ^ 52 + 1, again.U_seed:item())
  end)

  it('are computed with under autocast, with the seed as it is', function()
    local layer, x = layer_of('seed', { 40, 48, 2, 8 }), numbers(9, 40)
    local lower = ridge.autocast('bf16', function() return layer(x) end)
    assert.equal('bf16', lower.dtype)
    assert.is_true(off(lower, layer(x)) < 0.02)
  end)
end)

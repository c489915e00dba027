-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

local function close(a, b) assert.is_true(a:allclose(b, 1e-4, 1e-5), a .. '\n' .. b) end

describe('gradients', function()
  it('reach what requires them, and add up', function()
    local x = ridge.tensor({ 1, 2, 3 }):requires_grad_()
    local y = ridge.tensor { 4, 5, 6 }
    ;(x * x + y):sum():backward()
    close(x.grad, ridge.tensor { 2, 4, 6 })
    assert.is_nil(y.grad)
    ;(x * y):sum():backward()
    close(x.grad, ridge.tensor { 6, 9, 12 })
    x:zero_grad { set = true }
    close(x.grad, ridge.zeros(3))
    assert.is_nil(x:zero_grad().grad)
  end)

  it('add up whichever two ways they come, and leave nothing behind', function()
    local w = ridge.arange(1, 24):view(4, 6) -- a weight for each place, so that none is mistaken
    local WAYS = {
      whole = function(x) return x * w end,
      ['as it is'] = function(x) return x end,
      rows = function(x) return x:narrow(1, 2, 2) * w:narrow(1, 1, 2) end,
      columns = function(x) return x:narrow(2, 4, 3) * w:narrow(2, 1, 3) end,
      ['the last column'] = function(x) return x:narrow(2, 6, 1) end,
      ['every other'] = function(x) return x:narrow(2, 1, 3, 2) * w:narrow(2, 2, 3) end,
      view = function(x) return x:view(2, 12) * w:view(2, 12) end,
      transposed = function(x) return x:transpose(1, 2) * w:view(6, 4) end,
      reshaped = function(x) return x:transpose(1, 2):reshape(3, 8) * w:view(3, 8) end,
      expanded = function(x) return x:narrow(1, 1, 1):expand(4, 6) * w end,
    }
    local function flow(...)
      local x, loss = ridge.ones(4, 6):requires_grad_(), nil
      for _, way in ipairs { ... } do
        local part = WAYS[way](x):sum()
        loss = loss and loss + part or part
      end
      loss:backward()
      return x.grad
    end
    local before
    for round = 1, 2 do
      for one in pairs(WAYS) do
        for other in pairs(WAYS) do
          local sum = flow(one) + flow(other)
          assert.is_true(sum:equal(flow(one, other)), one .. ' and ' .. other)
          assert.is_true((sum + flow(one)):equal(flow(one, other, one)), one .. ' twice')
        end
      end
      collectgarbage()
      collectgarbage()
      if round == 1 then before = ridge.memory.stats().live_bytes end
    end
    assert.equal(before, ridge.memory.stats().live_bytes)
  end)

  it('begin with a given one, which is not copied, and stays as it was', function()
    local x, other = ridge.randn(4, 6):requires_grad_(), ridge.randn(4, 6)
    local dy = ridge.randn(4, 6)
    local before = dy:clone()
    for _, f in ipairs { function() return x + other end, function() return x:relu() end,
      function() return x:tanh() end, function() return x:view(6, 4):view(4, 6) end,
      function() return x end } do
      for _ = 1, 2 do -- into a new gradient, and onto one
        f():backward(dy)
        assert.is_true(dy:equal(before))
      end
      x.grad:fill_(7)
      assert.is_true(dy:equal(before))
      x:zero_grad()
    end
    local plan = ridge.capture(function()
      x:zero_grad()
      x:tanh():backward(dy)
    end)
    assert.same({ 'fused' }, plan:facts().steps)
    -- of another layout, and of another type, it is copied
    x:zero_grad()
    x:tanh():backward(dy:to 'f64':t():contiguous():t())
    local whole = x.grad
    x:zero_grad()
    x:tanh():backward(dy)
    close(x.grad, whole)
  end)

  it('flow through views, and through writes into views', function()
    local x = ridge.tensor({ { 1, 2 }, { 3, 4 } }):requires_grad_()
    x:t()[1]:sum():backward()
    close(x.grad, ridge.tensor { { 1, 0 }, { 1, 0 } })
    x:zero_grad()
    local y = ridge.zeros(3, 2)
    y:narrow(1, 2, 2):copy_(x * 2)
    y[2]:mul_(3)
    y[1]:fill_(7)
    y:sum():backward()
    -- rows 2 and 3 came from x, row 2 times three; the first row's past was overwritten
    close(x.grad, ridge.tensor { { 6, 6 }, { 2, 2 } })
  end)

  it('of what was used twice are the sum', function()
    local x = ridge.tensor({ 2 }):requires_grad_()
    local y = x * 3
    ;(y + y * y):sum():backward()
    close(x.grad, ridge.tensor { 3 + 2 * 6 * 3 })
  end)

  it('do not flow through detached views, nor where nothing is remembered', function()
    local x = ridge.tensor({ 2 }):requires_grad_()
    assert.is_false((x:detach() * 3).requires_grad)
    assert.is_false(ridge.no_grad(function() return x * 3 end).requires_grad)
    assert.is_true(ridge.no_grad(function()
      return ridge.enable_grad(function() return x * 3 end)
    end).requires_grad)
    failure(ridge.no_grad, function() error 'x' end)
    assert.is_true((x * 3).requires_grad)
    ;(x * x:detach()):sum():backward()
    close(x.grad, ridge.tensor { 2 })
  end)

  it('go the same way again only when asked to keep what was saved', function()
    local x = ridge.tensor({ 3 }):requires_grad_()
    local y = (x * x):sum()
    y:backward { retain = true }
    y:backward()
    close(x.grad, ridge.tensor { 12 })
    assert.matches('retain', failure(y.backward, y).message)
  end)

  it('refuse what would be wrong, with the facts', function()
    local x = ridge.ones(2):requires_grad_()
    assert.matches('no_grad', failure(x.add_, x, 1).message)
    local y = x:exp()
    y:add_(1)
    local e = failure(function() y:sum():backward() end)
    assert.matches('exp: f32%[2%], which its gradient reads, was written to since', e.message)
    assert.matches('2 elements', failure(y.backward, y).message)
    assert.matches('does not fit', failure(y.backward, y, ridge.ones(3)).message)
    assert.matches('no gradient flows', failure(ridge.ones(1).backward, ridge.ones(1)).message)
    assert.equal('EDTYPE', failure(ridge.ones(2):to('i32').requires_grad_,
      ridge.ones(2):to('i32')).code)
    local z = ridge.ones(1, 2):requires_grad_()
    local first = ridge.grad(nn.LayerNorm(2)(z):exp():sum(), z, { create = true })
    assert.matches('layer_norm_back: has no gradient',
      failure(function() first:sum():backward() end).message)
    assert.is_true((ridge.ones(2):requires_grad_(false) + 1):equal(ridge.full(2, { 2 })))
  end)

  it('of what nobody can ask for are forgotten at once', function()
    collectgarbage()
    collectgarbage()
    ridge.memory.stats() -- releases what was collected
    local before, saved = ridge.grad_stats().calls, ridge.grad_stats().saved_bytes
    local x = ridge.ones(4):requires_grad_()
    ridge.scope(function()
      local y = x
      for _ = 1, 1000 do y = (y * 1.001):tanh() end
      assert.equal(before + 2000, ridge.grad_stats().calls)
    end)
    assert.equal(before, ridge.grad_stats().calls)
    assert.equal(saved, ridge.grad_stats().saved_bytes)
  end)

  it('of long chains do not exhaust the stack', function()
    local x = ridge.ones(1):requires_grad_()
    local y = x
    for _ = 1, 200000 do y = y + 1 end
    y:backward()
    close(x.grad, ridge.ones(1))
  end)

  it('keep the memory of a training step where it was', function()
    local net = nn.Sequential(nn.Linear(8, 16, { activation = 'relu' }), nn.Linear(16, 4)):train()
    local x = ridge.randn(5, 8)
    local function step()
      ridge.scope(function()
        local loss = net(x):square():mean()
        loss:backward()
        ridge.no_grad(function()
          for _, p in ipairs(net:parameters()) do
            p.tensor:sub_(p.tensor.grad * 0.01)
            p.tensor:zero_grad()
          end
        end)
      end)
    end
    local function live()
      collectgarbage()
      collectgarbage()
      return ridge.memory.stats().live
    end
    for _ = 1, 10 do step() end
    local before = live()
    for _ = 1, 200 do step() end
    assert.equal(before, live())
  end)

  it('leave no tensor behind where a part of a storage has one, and neither do copies', function()
    local C, ref = require 'ridge.ffi.lib', require 'ridge.ffi.ref'
    local x = ridge.randn(4, 12)
    local function once()
      local layer = nn.SKLinear(12, 6, { low_rank = 2, form = 'stored', warn = false })
      layer(x):sum():backward()
      layer(x):sum():backward() -- adds to what is there
      local p = ridge.randn(12):requires_grad_() -- two gradients, which are added
      ;((p * 2):sum() + (p * p):sum()):backward()
      x:t():reshape(-1) -- which no view shows
    end
    local function live()
      for _ = 1, 3 do ref.collect() end
      return tonumber(C.rg_live_tensors())
    end
    once()
    local before = live()
    for _ = 1, 3 do once() end
    assert.equal(before, live())
  end)
end)

it('the gradient of a part of a storage is 0 where only its other rows were read', function()
  local C = require 'ridge.ffi.lib'
  local all = ridge.zeros(4, 6)
  local part = all:narrow(2, 4, 3)
  C.rg_tensor_set_part(part._t, 1)
  part:requires_grad_()
  local loss = (all:narrow(1, 1, 2) * 3):sum() -- as many elements as the part has
  local dirty = {}
  for i = 1, 50 do dirty[i] = ridge.full(7, 12) end
  for i = 1, 50 do dirty[i]:release() end -- memory of the size that the gradient takes
  loss:backward()
  assert.same({ { 3, 3, 3 }, { 3, 3, 3 }, { 0, 0, 0 }, { 0, 0, 0 } }, part.grad:tolist())
end)

-- Of svd, whose rule has steps of its own; the last allocation is that of what is handed out.
it('a gradient is right, or an error where any of its allocations fails', function()
  local C = require 'ridge.ffi.lib'
  local x = ridge.tensor({ { 3, 1 }, { 1, 2 }, { 0, 1 } }, { dtype = 'f64' }):requires_grad_()
  local function loss()
    local u, s, v = x:svd()
    return u:sum() + s:sum() + v:sum()
  end
  local want, refused = ridge.grad(loss(), x), 0
  repeat
    local l = loss()
    C.rg_alloc_fail_at(refused + 1)
    local ok, found = pcall(ridge.grad, l, x)
    C.rg_alloc_fail_at(0)
    if ok then
      assert.is_true(found ~= nil and found:equal(want))
    else
      assert.equal('ENOMEM', found.code)
      refused = refused + 1
    end
  until ok
  assert.is_true(refused > 20)
end)

describe('gradients of layers', function()
  -- against the layer written out with tensors
  local function agree(layer, written, names)
    layer:train()
    local x = ridge.randn(6, 24):requires_grad_()
    local arriving = ridge.randn(6, 16)
    layer(x):backward(arriving)
    local copies, dx = {}, x.grad:clone()
    for _, p in ipairs(layer:parameters()) do
      copies[p.name] = p.tensor:detach():clone()
      if p.trainable then copies[p.name]:requires_grad_() end
    end
    x:zero_grad()
    written(x, copies):backward(arriving)
    close(dx, x.grad)
    for _, name in ipairs(names) do
      close(layer[name].grad, copies[name].grad)
    end
  end

  for _, act in ipairs { 'none', 'relu', 'gelu', 'silu', 'tanh', 'sigmoid', 'relu6' } do
    local function after(y) return act == 'none' and y or y[act](y) end

    it('are right for a dense layer with ' .. act, function()
      agree(nn.Linear(24, 16, { seed = 1, activation = act }), function(x, p)
        return after(x:matmul(p.weight:t()) + p.bias)
      end, { 'weight', 'bias' })
    end)

    for _, form in ipairs { 'stored', 'bits', 'seed' } do
      it(('are right for a sketched layer with %s and its signs %s (F77, F79)'):format(act, form),
        function()
          local layer = nn.SKLinear(24, 16, { num_terms = 3, low_rank = 4, seed = 2, form = form,
                                              activation = act, warn = false })
          local stored = nn.SKLinear(24, 16, { num_terms = 3, low_rank = 4, seed = 2,
                                               form = 'stored', warn = false })
          agree(layer, function(x, p)
            local sum = ridge.zeros(6, 16)
            for t = 1, 3 do
              sum = sum + x:matmul(p.S1s[t]):matmul(stored.U1s[t])
                + x:matmul(stored.U2s[t]):matmul(p.S2s[t])
            end
            return after(sum / 6 + p.bias)
          end, { 'S1s', 'S2s', 'bias' })
        end)
    end
  end

  it('leave the fixed signs alone', function()
    local layer = nn.SKLinear(24, 16, { num_terms = 2, low_rank = 4, seed = 2, form = 'stored',
                                        warn = false }):train()
    layer(ridge.randn(3, 24)):sum():backward()
    assert.is_nil(layer.U1s.grad)
    assert.is_nil(layer.U2s.grad)
    assert.is_true(layer.S1s.grad:abs():max():item() > 0)
  end)

  it('go back through the same mask of dropout', function()
    local x = ridge.ones(1000):requires_grad_()
    local y = x:dropout(0.3)
    y:sum():backward()
    close(x.grad, y:detach())
  end)

  it('are those of a lower-precision type under autocast, in the type of the parameter', function()
    local layer = nn.Linear(64, 32, { seed = 3 }):train()
    local x = ridge.randn(16, 64)
    layer(x):square():mean():backward()
    local full = layer.weight.grad:clone()
    layer.weight:zero_grad()
    ridge.autocast('bf16', function() layer(x):square():mean():backward() end)
    assert.equal('f32', layer.weight.grad.dtype)
    assert.is_true(((layer.weight.grad - full):norm() / full:norm()):item() < 0.02)
  end)

  it('work in a captured step, with fresh dropout at each replay', function()
    local layer = nn.Linear(8, 8, { seed = 3 }):train()
    local x, dy = ridge.ones(4, 8), ridge.ones(4, 8)
    layer(x):backward(dy)
    local plan = ridge.capture(function()
      layer.bias:zero_grad { set = true }
      local y = layer(x):dropout(0.5)
      y:backward(dy)
      return y
    end)
    local seen = {}
    for _ = 1, 5 do
      plan()
      -- what is left of a column is what its bias moves: 2 for each element that was kept
      local sums = layer.bias.grad:tolist()
      for i = 1, 8 do
        assert.is_true(sums[i] % 2 == 0 and sums[i] <= 8)
        seen[#seen + 1] = sums[i]
      end
    end
    local first = table.concat(seen, ' ', 1, 8)
    assert.not_equal(first, table.concat(seen, ' ', 9, 16))
  end)
end)

it('the norm of small tensors has the gradient of large ones', function()
  local ffi, C, ref = require 'ffi', require 'ridge.ffi.lib', require 'ridge.ffi.ref'
  for _, size in ipairs { 1e-12, 1e-5, 1, 1e12 } do
    local x = ridge.tensor { 3 * size, 4 * size }:requires_grad_()
    assert.equal(0, C.rg_total_norm(ffi.new('const rg_tensor *[1]', { x._t }), 1, ref.slot))
    local y = ref.wrap(ref.slot[0])
    assert.near(5, y:item() / size, 1e-5)
    y:backward()
    local grad = x.grad:tolist()
    assert.near(0.6, grad[1], 1e-6)
    assert.near(0.8, grad[2], 1e-6)
  end
end)

it('a gradient that is written as a whole is not filled with zeros before', function()
  local function fills(f)
    local x = ridge.randn(3, 4):requires_grad_()
    local y = f(x)
    local n = 0
    for _, o in ipairs(ridge.profile(function() y:backward() end).operations) do
      n = n + (o.op == 'fill' and o.calls or 0)
    end
    return n, x.grad:tolist()
  end
  local weight = ridge.randn(4, 3)
  local n, grad = fills(function(x) return (x:t() * weight):sum() end)
  assert.equal(fills(function(x) return x:sum() end), n)
  assert.same(weight:t():contiguous():tolist(), grad)
  -- of a part the rest has no gradient
  local more, part = fills(function(x) return (x:t():narrow(1, 1, 2) * 3):sum() end)
  assert.equal(n + 1, more)
  assert.same({ { 3, 3, 0, 0 }, { 3, 3, 0, 0 }, { 3, 3, 0, 0 } }, part)
end)

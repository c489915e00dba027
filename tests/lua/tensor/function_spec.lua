-- SPDX-License-Identifier: MIT
-- Functions with a gradient of their own, gradients of gradients, hooks, recomputation, anomalies.

local ridge = require 'ridge'
local nn = ridge.nn
local backward = require 'ridge.tensor.backward'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function near(x, y) return x:allclose(y, 1e-5, 1e-6) end

describe('a function with its own gradient', function()
  it('is asked in the backward pass, wherever it stands', function()
    local asked = 0
    local cube = ridge.Function {
      forward = function(c, x)
        c.x = x:detach()
        return x * x * x
      end,
      backward = function(c, dy)
        asked = asked + 1
        return dy * 3 * c.x * c.x
      end,
    }
    local x = ridge.randn(5):requires_grad_()
    local y = cube(x * 2) + cube(x)
    y:sum():backward()
    assert.are.equal(2, asked)
    assert.is_true(near(x.grad, (x * x * 27):detach()))
  end)

  it('has several inputs and results, of which some get nothing', function()
    local both = ridge.Function {
      forward = function(_, x, y) return x + y, x * 2 end,
      backward = function(_, ds, dt)
        assert.is_nil(dt)
        return ds, nil
      end,
    }
    local x, y = ridge.ones(2):requires_grad_(), ridge.ones(2):requires_grad_()
    both(x, y):sum():backward()
    assert.same({ 1, 1 }, x.grad:tolist())
    assert.is_nil(y.grad)
  end)

  it('is forgotten when nobody can ask for it', function()
    local id = ridge.Function {
      forward = function(_, x) return x * 1 end,
      backward = function(_, dy) return dy end,
    }
    local x = ridge.ones(2):requires_grad_()
    collectgarbage()
    local before = backward.functions()
    for _ = 1, 100 do ridge.scope(function() id(x):sum():backward() end) end
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, backward.functions())
    id(ridge.ones(2)) -- requires no gradient: it is never recorded
    assert.are.equal(before, backward.functions())
  end)

  it('releases what it held when it was passed, and says so when it is asked again', function()
    local weak = setmetatable({}, { __mode = 'v' })
    local f = ridge.Function {
      forward = function(c, x)
        c.kept = {}
        weak[1] = c.kept
        return x * 2
      end,
      backward = function(c, dy) return c.kept and dy * 2 end,
    }
    local x = ridge.ones(2):requires_grad_()
    local y = f(x):sum()
    y:backward({ retain = true })
    collectgarbage()
    assert.is_not_nil(weak[1])
    y:backward()
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
    assert.same({ 4, 4 }, x.grad:tolist())
    assert.matches('backward has passed here', message(function() y:backward() end))
  end)

  it('says what is wrong with what it gives, and leaves the tape usable', function()
    local function bad(result)
      local f = ridge.Function {
        forward = function(_, x) return x * 1 end, backward = function() return result end,
      }
      local x = ridge.ones(3):requires_grad_()
      return message(function() f(x):sum():backward() end)
    end
    assert.matches('gradient 1 of a function is f32%[2%]', bad(ridge.ones(2)))
    assert.matches('gradient 1 of a function: a tensor is expected, got 7', bad(7))
    local f = ridge.Function {
      forward = function(_, x) return x * 1 end, backward = function() error('no luck') end,
    }
    local x = ridge.ones(3):requires_grad_()
    assert.matches('no luck', message(function() f(x):sum():backward() end))
    assert.matches('result 1.*requires a gradient', message(ridge.Function {
      forward = function() return x end, backward = function() end }, x))
    x:sum():backward()
    assert.same({ 1, 1, 1 }, x.grad:tolist())
  end)
end)

describe('gradients that are handed out inside a backward pass', function()
  it('are apart from those under way, which go on behind it', function()
    local w, x = ridge.ones(2):requires_grad_(), ridge.ones(2):requires_grad_()
    local inner = {}
    local function look(dy)
      local y = ridge.enable_grad(function() return (w * 5):sum() end)
      inner[#inner + 1] = ridge.grad(y, w):tolist()[1]
      return dy
    end
    local f = ridge.Function { forward = function(_, y) return y * 1 end,
      backward = function(_, dy) return look(dy) end }
    local y = f(x);
    (y + w * 3):sum():backward() -- w * 3 is passed before f
    assert.same({ 3, 3 }, w.grad:tolist())
    local handle = x:on_gradient(look)
    w:zero_grad()
    y = w * 2;
    (y + x * 1 + w * 3):sum():backward()
    assert.same({ 5, 5 }, w.grad:tolist())
    handle:remove()
    assert.same({ 5, 5 }, inner)
  end)
end)

describe('gradients of gradients', function()
  it('of a cube are what calculus says, to the third', function()
    local x = ridge.tensor({ 2, -1 }):requires_grad_()
    local g = ridge.grad((x * x * x):sum(), x, { create = true })
    assert.same({ 12, 3 }, g:detach():tolist())
    local h = ridge.grad(g:sum(), x, { create = true })
    assert.same({ 12, -6 }, h:detach():tolist())
    assert.same({ 6, 6 }, ridge.grad(h:sum(), x):tolist())
    assert.is_nil(x.grad)
  end)

  it('of a network agree with finite differences', function()
    for _, act in ipairs { 'tanh', 'gelu', 'silu', 'sigmoid', 'relu6' } do
      local net = nn.Sequential(nn.Linear(3, 5, { seed = 1 }), nn.Linear(5, 1, { seed = 2 }))
        :to 'f64':train()
      local first, second = net.children[1].module, net.children[2].module
      local x = ridge.randn(4, 3):to 'f64':requires_grad_()
      local function penalty()
        local y = second(first(x)[act](first(x)))
        local g = ridge.grad(y:sum(), x, { create = true })
        return (g * g):sum()
      end
      local dw = ridge.grad(penalty(), first.weight)
      local w = first.weight
      for i = 1, 3 do
        local e = 1e-6
        local at = w:detach():reshape(15):narrow(1, i * 4, 1)
        local before = at:item()
        at:fill_(before + e)
        local up = penalty():item()
        at:fill_(before - e)
        local down = penalty():item()
        at:fill_(before)
        local wanted = (up - down) / (2 * e)
        local got = dw:reshape(15):narrow(1, i * 4, 1):item()
        assert.is_true(math.abs(got - wanted) < 1e-6 * math.max(1, math.abs(wanted)),
          ('%s: %g, wanted %g'):format(act, got, wanted))
      end
    end
  end)

  it('of cross entropy are products with its Hessian', function()
    local labels = ridge.tensor({ 0, 2 }, { dtype = 'i64' })
    local weight = ridge.tensor({ 0.5, 1, 2 }, { dtype = 'f64' })
    for _, opts in ipairs { {}, { smoothing = 0.2 }, { weight = weight }, { reduction = 'sum' } } do
      local x = ridge.randn(2, 3):to 'f64':requires_grad_()
      local v = ridge.randn(2, 3):to 'f64'
      local function gradient(at)
        local y = at:detach():clone():requires_grad_()
        return ridge.grad(nn.cross_entropy(y, labels, opts), y)
      end
      local g = ridge.grad(nn.cross_entropy(x, labels, opts), x, { create = true })
      local product = ridge.grad((g * v):sum(), x)
      local e = 1e-6
      local wanted = (gradient(x + v * e) - gradient(x - v * e)) * (0.5 / e)
      assert.is_true(product:allclose(wanted, 1e-5, 1e-7))
    end
  end)

  it('say which operation has none', function()
    local x = ridge.randn(2, 3):requires_grad_()
    local g = ridge.grad(nn.LayerNorm(3)(x):square():sum(), x, { create = true })
    assert.matches('layer_norm_back: has no gradient', message(ridge.grad, (g * g):sum(), x))
  end)

  it('are asked for of what wants one', function()
    assert.matches('tensor 1, f32%[2%].*requires no gradient', message(ridge.grad,
      ridge.ones(2):requires_grad_():sum(), ridge.ones(2)))
  end)
end)

describe('a hook', function()
  it('sees and changes what flows back', function()
    local x = ridge.ones(2):requires_grad_()
    local seen
    ridge.hook(x * 3, function(g)
      seen = g:tolist()
      return g * 10
    end):sum():backward()
    assert.same({ 1, 1 }, seen)
    assert.same({ 30, 30 }, x.grad:tolist())
  end)
end)

describe('recomputation', function()
  it('works on after scopes in scopes, in which it began', function()
    local pipe = io.popen([[./ridge -e 'local net = ridge.nn.Linear(3, 2, { seed = 1 }):train()
      local function go() return ridge.recompute(net, ridge.ones(1, 3)):sum():backward() end
      ridge.scope(ridge.scope, go)
      go()
      return net.bias.grad:get(1)' 2>&1]])
    local text = pipe:read '*a'
    pipe:close()
    assert.equal('2\n', text)
  end)

  local function net()
    local blocks = nn.Sequential()
    for i = 1, 4 do
      blocks:add(nn.TransformerBlock(16, { heads = 2, causal = true, dropout = 0.2, seed = i }))
    end
    return blocks:train()
  end

  local function step(model, x)
    for _ = 1, 2 do collectgarbage() end -- the count is of the process: of other tests' garbage too
    ridge.seed(5)
    local y = model(x)
    local saved = ridge.grad_stats().saved_bytes
    y:square():mean():backward()
    return y, saved
  end

  it('gives the gradients of the plain run bit for bit, and keeps less', function()
    local x = ridge.randn(2, 9, 16)
    local plain = net()
    local y, most = step(plain, x)
    for segments = 1, 4 do
      local again = net():recompute(segments)
      local z, saved = step(again, x)
      assert.is_true(y:equal(z))
      assert.is_true(saved < most / 8, ('%d of %d bytes'):format(saved, most))
      local p, q = plain:parameters(), again:parameters()
      for i = 1, #p do assert.is_true(p[i].tensor.grad:equal(q[i].tensor.grad), p[i].name) end
    end
  end)

  it('takes in what is added to the network later, at every number of segments', function()
    local x = ridge.arange(0, 5):reshape(2, 3)
    for _, segments in ipairs { true, 1, 2, 3 } do
      local function made(on)
        local model = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), nn.Linear(4, 4, { seed = 2 }),
          nn.Tanh()):train()
        if on then model:recompute(segments) end
        local last = nn.Sequential(nn.Linear(4, 2, { seed = 3 }), nn.Dropout(0.5))
        model:add(last)
        assert.is_true(last.training and last.children[2].module.training)
        ridge.seed(4)
        local y = model(x)
        model:add(nn.Tanh()) -- after the forward pass; the backward pass recomputes parts
        y:sum():backward()
        return y, last.children[1].module.weight.grad, model.children[1].module.weight.grad
      end
      local y, last, first = made(false)
      local z, last2, first2 = made(true)
      assert.same({ 2, 2 }, z.shape)
      assert.is_true(y:equal(z) and last:equal(last2) and first:equal(first2))
    end
    local empty = nn.Sequential():recompute():train()
    empty:add(nn.Linear(3, 2, { seed = 1 }))
    assert.same({ 2, 2 }, empty(x).shape)
  end)

  it('of single modules, under autocast, with gradients of the input', function()
    local function run(on)
      local layer = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.GELU(), nn.Dropout(0.3)):train()
      if on then layer.children[1].module:recompute() end
      ridge.seed(3)
      local x = ridge.ones(4, 6):requires_grad_()
      ridge.autocast('bf16', layer, x):sum():backward()
      return x.grad, layer.children[1].module.weight.grad
    end
    local x, w = run(false)
    local x2, w2 = run(true)
    assert.is_true(x:equal(x2) and w:equal(w2))
  end)

  it('of parts within parts is the plain run too', function()
    local function run(on)
      local inner = nn.Sequential(nn.Linear(4, 6, { seed = 1 }), nn.BatchNorm(6), nn.Dropout(0.5))
      local outer = nn.Sequential(inner, nn.Linear(6, 3, { seed = 2 }), nn.Dropout(0.3),
        nn.BatchNorm(3)):train()
      if on then
        inner:recompute(2)
        outer:recompute(2)
      end
      ridge.seed(8)
      local x = ridge.arange(0, 19):reshape(5, 4):requires_grad_()
      outer(x):square():sum():backward()
      local list = { x.grad }
      for _, p in ipairs(outer:parameters()) do
        list[#list + 1] = p.trainable and p.tensor.grad or p.tensor
      end
      return list
    end
    local plain, again = run(false), run(true)
    for i = 1, #plain do assert.is_true(plain[i]:equal(again[i]), 'tensor ' .. i) end
  end)

  it('is off where nothing is recorded, and in evaluation mode', function()
    local calls = 0
    local function f(x)
      calls = calls + 1
      return x * 2
    end
    ridge.no_grad(ridge.recompute, f, ridge.ones(2))
    assert.are.equal(1, calls)
    local model = net():recompute(2):eval()
    local x = ridge.randn(1, 3, 16)
    assert.is_true(model(x):equal(net():eval()(x)))
  end)

  it('leaves running statistics as one pass does', function()
    local function run(on)
      local norm = nn.BatchNorm(3):train():recompute(on)
      local x = (ridge.arange(0, 11):reshape(4, 3) * 0.5):requires_grad_()
      norm(x):square():sum():backward()
      return norm.running_mean, norm.running_var
    end
    local mean, var = run(false)
    local mean2, var2 = run(true)
    assert.is_true(mean:equal(mean2) and var:equal(var2))
  end)

  it('writes into what the part made itself, not into its inputs', function()
    local x = ridge.ones(3):requires_grad_()
    ridge.recompute(function(a) return (a * 2):add_(1):mul_(3) end, x):sum():backward()
    assert.same({ 6, 6, 6 }, x.grad:tolist())
    assert.matches('argument 1, f32%[3%].*was written to', message(ridge.recompute,
      function(a) return a:add_(1) end, ridge.ones(3)))
  end)

  it('refuses that its input changes before the backward pass', function()
    local x = ridge.ones(3)
    local w = ridge.ones(3):requires_grad_()
    local y = ridge.recompute(function(a) return a * w end, x):sum()
    x:add_(1)
    assert.matches('was written to since', message(function() y:backward() end))
  end)
end)

describe('what is kept', function()
  it('is listed with the operation whose gradient reads it', function()
    local x = ridge.ones(1000):requires_grad_()
    local list = ridge.grad_saved((x * x):exp())
    assert.are.equal(2, #list)
    local by = {}
    for _, e in ipairs(list) do by[e.op] = e end
    assert.are.equal('result 1', by.exp.what)
    assert.are.equal('input 1', by.mul.what)
    assert.are.equal(2, by.mul.times)
    assert.is_true(by.exp.bytes >= 4000)
  end)
end)

describe('anomaly mode', function()
  it('names the operation, the line and the module of the first nan', function()
    local Bad = nn.class 'Bad'
    function Bad.forward(_, x) return (x - 5):log() end
    local net = nn.Sequential(nn.ReLU(), Bad())
    local text = message(ridge.anomaly, net, ridge.ones(2))
    assert.matches('log: made a nan', text)
    assert.matches('function_spec.lua:%d+', text)
    assert.matches('in nn.Sequential > Bad', text)
  end)

  it('names the line whose gradient it was', function()
    local text = message(ridge.anomaly, function()
      local x = ridge.zeros(2):requires_grad_()
      local y = x:sqrt() -- this line
      y:sum():backward()
    end)
    assert.matches('the gradient of the call at tests/lua/tensor/function_spec.lua:%d+: div', text)
  end)

  it('lets infinities through that were there before, and ends with the call', function()
    local mask = ridge.zeros(2):fill_(-math.huge)
    ridge.anomaly(function() return ridge.ones(2) + mask end)
    local x = ridge.tensor({ -1 }):log():item()
    assert.is_true(x ~= x)
  end)
end)

-- SPDX-License-Identifier: MIT
-- fold_affine: constants around products become weights and bias; what must stay does.
local ridge = require 'ridge'
local nn = ridge.nn

local PASS = { 'fold_affine' }

local function ops(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do list[#list + 1] = node.op end
  return table.concat(list, ' ')
end

local function count(graph, op)
  local n = 0
  for _, node in ipairs(graph:nodes()) do n = n + (node.op == op and 1 or 0) end
  return n
end

local function distance(a, b)
  return (a - b):abs():max():item() / math.max(b:abs():max():item(), 1e-30)
end

-- The graph behind the pass, whose plan gives what f gives, also with other parameters; `change`
-- writes to them.
local function folded(f, x, change)
  local function g(a) return ridge.no_grad(f, a) end
  local h = ridge.graph(g, x):optimize(PASS):check()
  local plan = h:plan()
  for round = 1, 3 do
    x:copy_(ridge.randn(unpack(x.shape)))
    if round == 3 and change then change() end
    local d = distance(plan:run(), g(x))
    assert.is_true(d < 1e-5, ('round %d: off by %g\n%s'):format(round, d, tostring(h)))
  end
  return h
end

describe('fold_affine', function()
  local scale, shift = ridge.rand(4) + 0.5, ridge.randn(4)
  local conv = nn.Conv2d(3, 4, 3, { seed = 1, padding = 1 }):eval()
  local linear = nn.Linear(5, 4, { seed = 2 }):eval()

  it('takes what stands behind a linear function', function()
    local x = ridge.randn(2, 5)
    local h = folded(function(a) return (linear(a) * scale + shift) * 0.5 - 1 end, x, function()
      scale:mul_(1.5)
      linear.weight:detach():mul_(0.5)
    end)
    assert.equal(1, count(h, 'linear'))
    local last = h:nodes()[#h:nodes()]
    assert.equal('linear', last.op)
    assert.equal('linear', h:outputs()[1].value.producer.op)
    h = folded(function(a) return scale * linear(a) / 3 end, x)
    assert.equal('linear', h:nodes()[#h:nodes()].op)
  end)

  it('takes a scale of each feature before a linear function, and of no other axis', function()
    local x, inner, rows = ridge.randn(4, 5), ridge.rand(5) + 0.5, ridge.rand(4, 1) + 0.5
    local h = folded(function(a) return linear(a * inner) end, x, function() inner:mul_(0.75) end)
    local last = h:nodes()[#h:nodes()]
    assert.equal('linear', last.op)
    assert.is_true(last.inputs[1].producer == nil) -- the weights alone
    h = folded(function(a) return linear(inner * a:reshape(2, 2, 5)) end, x)
    last = h:nodes()[#h:nodes()]
    assert.equal('reshape', last.inputs[1].producer.op)
    assert.equal('mul linear', ops(folded(function(a) return linear(a * rows) end, x)))
  end)

  it('leaves constants minus a linear function, and constants over one', function()
    local x = ridge.randn(2, 5)
    for _, f in ipairs { function(a) return shift - linear(a) end,
      function(a) return scale / linear(a) end, function(a) return 2 - linear(a) end,
      function(a) return 3 / linear(a) end } do
      assert.equal(2, #folded(f, x):nodes())
    end
  end)

  it('takes what stands behind a convolution, and scales before it', function()
    local x = ridge.randn(2, 3, 5, 5)
    local inner = ridge.rand(3, 1, 1) + 0.5
    local h = folded(function(a)
      return conv(a * inner) * scale:reshape(4, 1, 1) + shift:reshape(1, 4, 1, 1)
    end, x, function() inner:mul_(0.75) end)
    assert.equal(1, count(h, 'conv2d'))
    assert.equal('conv2d', h:nodes()[#h:nodes()].op)
    h = folded(function(a) return conv(a * 2) end, x)
    assert.equal('mul conv2d', ops(h)) -- the weights alone
    local groups = nn.Conv2d(3, 6, 3, { groups = 3 }) -- whose weights have no axis of all channels
    h = folded(function(a) return groups(a * inner) end, x)
    assert.equal('conv2d', h:nodes()[#h:nodes()].op)
    assert.equal('mul', h:nodes()[#h:nodes()].inputs[1].producer.op)
  end)

  it('takes scales before a linear function, one for each input', function()
    local x = ridge.randn(2, 5)
    local inner = ridge.rand(5) + 0.5
    local h = folded(function(a) return linear(a * inner) end, x, function() inner:mul_(0.75) end)
    local last = h:nodes()[#h:nodes()]
    assert.equal('linear', last.op)
    assert.is_nil(last.inputs[1].producer)
    assert.equal('mul', last.inputs[2].producer.op) -- of the weights alone
    local rows = ridge.rand(2, 1) + 0.5
    assert.equal('mul linear', ops(folded(function(a) return linear(a * rows) end, x)))
  end)

  it('leaves what is no constant, no channel, read twice or written', function()
    local x = ridge.randn(4, 5)
    local function stays(f, nodes)
      assert.equal(nodes, ops(folded(f, x)))
    end
    stays(function(a) return linear(a) * a:sum() end, 'linear sum mul')
    stays(function(a) return linear(a) * scale:reshape(4, 1) end, 'linear reshape mul')
    stays(function(a)
      local y = linear(a)
      return y * 2 + y
    end, 'linear mul add')
    stays(function(a) return linear(a + 1) end, 'add linear') -- behind padding it is no constant
    stays(function(a) return linear(a):relu() * 2 end, 'linear relu mul')
    local more = ridge.rand(1, 1, 4) -- of more axes than what it scales
    stays(function(a) return linear(a) * more end, 'linear mul')
    stays(function(a) return linear(a) + more end, 'linear add')
    local deep = ridge.rand(1, 1, 5)
    stays(function(a) return linear(a * deep) end, 'mul linear')
    stays(function(a) return 1 - linear(a) end, 'linear sub')
    stays(function(a) return 2 / linear(a) end, 'linear div')
    local own = ridge.rand(4)
    local g = ridge.graph(function(a)
      local y = linear(a) * own
      own:mul_(0.9)
      return y
    end, x)
    assert.equal('linear mul mul', ops(g:optimize(PASS):check()))
  end)

  it('is caught where it would be wrong', function() -- this spec would see a scale on the rows
    local x = ridge.randn(4, 5)
    local w = linear.weight:detach()
    local wrong = (x:matmul((w * 2):t()) + linear.bias:detach())
    assert.is_true(distance(wrong, linear(x):detach() * 2) > 1e-3)
  end)
end)

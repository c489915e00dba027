-- SPDX-License-Identifier: MIT
-- nn.Sequential: its modules by place, others in their place, and what it is made of.
local ridge = require 'ridge'
local nn = ridge.nn

describe('a Sequential', function()
  it('computes with, trains and saves the module that is put in the place of another', function()
    local net = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), nn.ReLU(), nn.Linear(4, 2))
    local copy, other = net:clone(), nn.Linear(4, 2, { seed = 9 })
    net[3] = other
    local x = ridge.ones(2, 3)
    assert.same(other(nn.ReLU()(net[1](x))):tolist(), net(x):tolist())
    assert.equal(other.weight._t, net:state()['3.weight']._t)
    assert.equal(other, net[-1])
    net:eval()
    assert.is_false(other.training)
    copy[1] = nn.Linear(3, 4, { bias = false })
    assert.equal(4 * 3 + 4 * 2 + 2, (copy:num_parameters()))
    assert.equal(4 * 3 + 4 + 4 * 2 + 2, (net:num_parameters()))
    net[2] = 5
    local ok, err = pcall(net, x)
    assert.is_false(ok)
    assert.matches('a module is expected at 2, got 5', tostring(err))
    assert.matches('^nn.Sequential that cannot run: .*expected at 2, got 5$', tostring(net))
  end)

  it('says that it holds itself, and goes on with another module there', function()
    local inner, x = nn.Sequential(nn.ReLU(), nn.Linear(3, 3)), ridge.ones(2, 3)
    local outer = nn.Sequential(inner)
    local function refuses(f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches('a module cannot be a child of itself', tostring(err))
    end
    for _, round in ipairs { inner, outer } do -- at once, and by way of another
      local before = inner[1]
      inner[1] = round
      refuses(inner, x)
      refuses(outer, x)
      refuses(inner.parameters, inner)
      assert.matches('cannot run: .* a module cannot be a child of itself$', tostring(inner))
      assert.matches('cannot run: .* a module cannot be a child of itself$', tostring(outer))
      inner[1] = before
      assert.same({ 2, 3 }, outer(x).shape)
    end
    refuses(outer.child, outer, 'a', outer)
    refuses(inner.add, inner, outer)
  end)

  it('is converted to one thing at a time', function()
    for _, module in ipairs { nn.Linear(4, 4), nn.SKLinear(64, 64, { low_rank = 4 }),
      nn.MultiHeadAttention(8, { heads = 2 }),
      nn.Sequential(nn.Linear(2, 2)), nn.DataParallel(nn.Linear(2, 2), { devices = { 'cpu' } }) } do
      for _, more in ipairs { 5, 'cpu', require('ffi').new 'int[3]' } do
        local ok, err = pcall(module.to, module, 'f64', more)
        assert.is_false(ok)
        assert.matches('to: one type or device is expected', tostring(err))
      end
    end
  end)

  it('has its modules by place, from either end, and says how many', function()
    local a, b, c = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)
    local net = nn.Sequential(a, b):add(c)
    assert.is_true(net[1] == a and net[2] == b and net[3] == c)
    assert.is_true(net[-1] == c and net[-3] == a)
    assert.is_nil(net[4])
    assert.is_nil(net[-4])
    assert.is_nil(net[0])
    assert.equal(3, #net)
    assert.equal(0, #nn.Sequential())
    local copy = net:clone()
    assert.equal(3, #copy)
    assert.is_true(copy[1] == copy.children[1].module and copy[1] ~= a)
    assert.equal(3, #copy:parameters() - 1)
  end)
end)

-- SPDX-License-Identifier: MIT
-- Pairs of calls that are one call, by the names that onnxoptimizer gave them: before and after,
-- and each condition left out once.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn = ridge.nn

local function ops(graph)
  local list = {}
  for _, node in ipairs(graph:nodes()) do list[#list + 1] = node.op end
  return table.concat(list, ' ')
end

-- The operations behind a pass; what comes out is the same within `most` of the largest.
local function behind(pass, f, x, most)
  local h = ridge.graph(f, x):optimize { pass }:check()
  local want, got = { f(x) }, { h:plan():run() }
  for i, y in ipairs(want) do
    if most then
      local off = (got[i]:to 'f64' - y:to 'f64'):abs():max():item()
      assert.is_true(off <= most * y:to 'f64':abs():max():item(), off .. ' ' .. ops(h))
    else
      assert.same(bits.all(y), bits.all(got[i]), ops(h))
    end
  end
  return ops(h), h
end

describe('eliminate_nop_pad', function()
  it('takes padding by nothing away, and no other', function()
    local x = ridge.randn(2, 3)
    local function after(f) return (behind('eliminate_nop_pad', f, x)) end
    assert.equal('exp exp', after(function(a) return a:exp():pad { { 0, 0 }, { 0, 0 } }:exp() end))
    assert.equal('exp pad exp', after(function(a) return a:exp():pad { { 0, 1 } }:exp() end))
    assert.equal('exp pad exp', after(function(a) return a:exp():pad { { -1, 1 } }:exp() end))
    -- two tensors are not one where both come out, or one is written to
    assert.equal('exp pad', after(function(a)
      local y = a:exp()
      return y, y:pad { { 0, 0 } }
    end))
    assert.truthy(after(function(a)
      local y = a:exp()
      local z = y:pad { { 0, 0 } }
      y:add_(1)
      return z * 2, y * 2
    end):find 'pad')
  end)
end)

describe('fuse_pad_into_conv', function()
  local function after(f, x, most)
    return behind('fuse_pad_into_conv', f, x, most or 1e-6)
  end
  local x = ridge.randn(2, 3, 5, 6)
  local conv = nn.Conv2d(3, 4, 3, { seed = 1, padding = 1 }):eval()
  local function pads(a, amounts, opts) return ridge.no_grad(conv, a:exp():pad(amounts, opts)) end

  it('makes zeros around images a padding of the convolution', function()
    local ran, h = after(function(a) return pads(a, { { 1, 2 }, { 0, 3 } }) end, x)
    assert.equal('exp conv2d', ran)
    local args = h:nodes()[2].args
    assert.same({ { 2, 1 }, { 3, 4 } }, { args.pad_low, args.pad_high })
    -- who else reads what is padded has it padded
    assert.equal('exp pad conv2d sum', (after(function(a)
      local y = a:exp():pad { { 1, 1 }, { 1, 1 } }
      return ridge.no_grad(conv, y), y:sum()
    end, x)))
    -- channels last
    local last = nn.Conv2d(3, 4, 3, { seed = 1, layout = 'nhwc' }):eval()
    ran, h = after(function(a)
      return ridge.no_grad(last, a:exp():pad { { 1, 0 }, { 2, 0 }, { 0, 0 } })
    end, ridge.randn(2, 5, 6, 3))
    assert.equal('exp conv2d', ran)
    assert.same({ 1, 2 }, h:nodes()[2].args.pad_low)
  end)

  it('leaves other padding', function()
    for what, f in pairs {
      ['ones'] = function(a) return pads(a, { { 1, 1 } }, { value = 1 }) end,
      ['what is cut'] = function(a) return pads(a, { { -1, 1 } }) end,
      ['reflected'] = function(a) return pads(a, { { 1, 1 } }, { mode = 'reflect' }) end,
      ['edges'] = function(a) return pads(a, { { 1, 1 } }, { mode = 'edge' }) end,
      ['batches'] = function(a) return pads(a, { { 1, 1 }, { 0, 0 }, { 0, 0 }, { 0, 0 } }) end,
      ['channels'] = function(a)
        return pads(a:narrow(2, 1, 2), { { 0, 1 }, { 0, 0 }, { 0, 0 } })
      end,
      ['what is written to before it is read'] = function(a)
        local y = a:exp()
        local z = y:pad { { 1, 1 } }
        y:mul_(2)
        return ridge.no_grad(conv, z) + y:sum()
      end,
      ['what is written to between'] = function(a)
        local z = a:exp():pad { { 1, 1 } }
        z:add_(1)
        return ridge.no_grad(conv, z)
      end,
    } do
      assert.truthy(after(f, x):find 'pad', what)
    end
  end)
end)

describe('fuse_consecutive_reduce_unsqueeze', function()
  local function after(f, x) return behind('fuse_consecutive_reduce_unsqueeze', f, x) end
  local x = ridge.randn(3, 4, 5)

  it('lets axes stay that are put back', function()
    for _, op in ipairs { 'sum', 'mean', 'prod', 'max', 'min', 'norm' } do
      local function of(a, axis)
        if op == 'norm' then return a:norm(2, axis) end
        return (a[op](a, axis))
      end
      assert.equal(op .. ' sub', (after(function(a) return a - of(a, 2):unsqueeze(2) end, x)), op)
      assert.equal(op .. ' sub', (after(function(a) return a - of(a, 3):reshape(3, 4, 1) end, x)))
    end
    local ran, h = after(function(a) return a:sum { 1, 3 }:reshape(1, 4, 1) * 2 end, x)
    assert.equal('sum mul', ran)
    assert.same({ 1, 3 }, h:nodes()[1].args.axes)
    assert.is_true(h:nodes()[1].args.keep)
  end)

  it('leaves other shapes, readers and writes', function()
    for what, f in pairs {
      ['another axis'] = function(a) return a:sum(2):unsqueeze(1) * 2 end,
      ['two readers'] = function(a)
        local y = a:sum(2)
        return y:unsqueeze(2) * 2, y * 3
      end,
      ['an output'] = function(a)
        local y = a:sum(2)
        return y:unsqueeze(2), y
      end,
      ['a write'] = function(a)
        local y = a:sum(2)
        local z = y:unsqueeze(2)
        y:add_(1)
        return z * 2
      end,
      ['no view'] = function(a) return a:sum(2):exp() end,
      ['no reduction'] = function(a) return a:argmax(2):unsqueeze(2):to 'f32' * 1.5 end,
    } do
      local ran, h = after(f, x)
      assert.equal(ops(ridge.graph(f, x)), ran, what)
      for _, node in ipairs(h:nodes()) do assert.falsy(node.args.keep, what) end
    end
  end)
end)

describe('eliminate_nop_monotone_argmax', function()
  local function after(f, x) return (behind('eliminate_nop_monotone_argmax', f, x)) end

  it('reads what a softmax of the same axis does', function()
    local x = ridge.randn(4, 6)
    assert.equal('argmax', after(function(a) return a:softmax(2):argmax(2) end, x))
    assert.equal('argmax', after(function(a) return a:softmax(-1):argmax(-1) end, x))
    assert.equal('softmax argmax mul sum', after(function(a)
      local p = a:softmax(1)
      return p:argmax(1), (p * p):sum()
    end, x):gsub('argmax softmax', 'softmax argmax'))
  end)

  it('leaves other axes, functions and types', function()
    local x = ridge.randn(4, 6)
    for what, f in pairs {
      ['another axis'] = function(a) return a:softmax(1):argmax(2) end,
      ['argmin'] = function(a) return a:softmax(2):argmin(2) end,
      ['exp, which is infinite twice'] = function(a) return (a * 1000):exp():argmax(2) end,
      ['log, which is nan below 0'] = function(a) return a:log():argmax(2) end,
      ['bf16'] = function(a) return a:to 'bf16':softmax(2):argmax(2) end,
      ['a write'] = function(a)
        local y = a * 2
        local p = y:softmax(2)
        y:neg_()
        return p:argmax(2), y * 1.5
      end,
    } do
      assert.equal(ops(ridge.graph(f, x)), after(f, x), what)
    end
  end)
end)

describe('names of onnxoptimizer', function()
  it('stand for passes, two of them for none, which have nothing to do here', function()
    local names = ridge.graph.aliases()
    for _, name in ipairs { 'eliminate_deadend', 'eliminate_identity',
      'eliminate_nop_monotone_argmax', 'eliminate_nop_pad', 'eliminate_nop_transpose',
      'eliminate_unused_initializer', 'extract_constant_to_initializer', 'fuse_add_bias_into_conv',
      'fuse_bn_into_conv', 'fuse_consecutive_concats', 'fuse_consecutive_reduce_unsqueeze',
      'fuse_consecutive_squeezes', 'fuse_consecutive_transposes',
      'fuse_matmul_add_bias_into_gemm', 'fuse_pad_into_conv' } do
      assert.is_true(#names[name] > 0, name)
    end
    local g = ridge.graph(function(a) return a:matmul(a:t()):relu() end, ridge.randn(3, 4))
    for _, name in ipairs { 'eliminate_nop_dropout', 'fuse_transpose_into_gemm' } do
      assert.same({}, names[name])
      assert.is_true(g:optimize { name }:same(g))
    end
  end)

  it('stand for passes of ridge that have other names besides', function()
    local names = ridge.graph.aliases()
    local by = {}
    for _, pass in ipairs(ridge.graph.passes()) do by[pass.name] = pass.does ~= nil end
    for _, name in ipairs { 'fuse_activation', 'fuse_chain', 'common_subexpressions',
      'assign_layout' } do
      assert.equal(1, #names[name])
      assert.is_true(by[names[name][1]], name)
    end
  end)
end)

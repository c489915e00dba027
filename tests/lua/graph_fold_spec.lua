-- SPDX-License-Identifier: MIT
-- Convolution and batch normalisation as one convolution, in evaluation.
local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local FOLD = { 'batch_norm_folding' }

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return ' ' .. table.concat(list, ' ') .. ' '
end

-- A norm whose running mean, variance, weight and bias are no ones and zeros.
local function lived_in(norm)
  for name, x in pairs(norm:state()) do
    x:detach():copy_(ridge.rand(unpack(x.shape)) + (name:find 'var' and 0.5 or -0.3))
  end
  return norm
end

-- The largest difference, by the largest result.
local function distance(a, b)
  return (a - b):abs():max():item() / b:abs():max():item()
end

local function folds(net, x, left)
  net:eval()
  local g = ridge.graph(net, x)
  local h = g:optimize(FOLD):check()
  assert.equal(left or 0, select(2, ops(h):gsub(' batch_norm', '')), tostring(h))
  local plan = h:plan()
  for _ = 1, 3 do
    x:copy_(ridge.randn(unpack(x.shape)))
    local want = net(x)
    local d = distance(plan:run(), want)
    assert.truthy(d < 1e-5, 'off by ' .. d)
  end
  return h, plan
end

describe('folding of batch norms into convolutions', function()
  it('gives the same results but for rounding', function()
    ridge.seed(3)
    local x = ridge.randn(2, 4, 7, 7)
    folds(nn.Sequential(nn.Conv2d(4, 6, 3), lived_in(nn.BatchNorm(6))), x)
    folds(nn.Sequential(nn.Conv2d(4, 6, 3, { bias = false, stride = 2, padding = 1 }),
      lived_in(nn.BatchNorm(6)), nn.ReLU(), nn.Conv2d(6, 8, 3, { groups = 2 }),
      lived_in(nn.BatchNorm(8)), nn.ReLU()), x)
    folds(nn.Sequential(nn.Conv2d(4, 6, 3), lived_in(nn.BatchNorm(6)), nn.BatchNorm(6)), x, 1)
  end)

  it('is off by as much as the mean rounds where it is large', function()
    for i, mean in ipairs { 0, 10, -1e3, 1e5 } do
      ridge.seed(i)
      local conv, norm = nn.Conv2d(4, 6, 3), lived_in(nn.BatchNorm(6))
      conv.bias:detach():fill_(mean)
      local state = norm:state()
      state.running_mean:detach():add_(mean)
      local net, x = nn.Sequential(conv, norm):eval(), ridge.randn(2, 4, 7, 7)
      local want = net(x)
      local scaled = state.running_mean * state.weight / (state.running_var + 1e-5):sqrt()
      local most = math.max(want:abs():max():item(), scaled:abs():max():item())
      local off = (ridge.graph(net, x):optimize(FOLD):plan():run() - want):abs():max():item()
      assert.truthy(off < 1e-5 * most, ('mean %g: off by %g of %g'):format(mean, off, most))
    end
  end)

  it('reads the parameters of each run', function()
    ridge.seed(4)
    local net = nn.Sequential(nn.Conv2d(3, 4, 3), lived_in(nn.BatchNorm(4)))
    local x = ridge.randn(2, 3, 6, 6)
    local _, plan = folds(net, x)
    local other = nn.Sequential(nn.Conv2d(3, 4, 3, { seed = 9 }), lived_in(nn.BatchNorm(4))):eval()
    for name, value in pairs(other:state()) do net:state()[name]:detach():copy_(value) end
    assert.truthy(distance(plan:run(), other(x)) < 1e-5)
  end)

  it('is no exact pass', function()
    for _, pass in ipairs(ridge.graph.passes()) do
      if pass.name == FOLD[1] then return assert.equal('reassociates', pass.exactness) end
    end
    error 'it is not there'
  end)

  it('leaves what it may not touch', function()
    local x = ridge.randn(2, 3, 6, 6)
    local conv, norm = nn.Conv2d(3, 4, 3), nn.BatchNorm(4)
    local function stays(f, why)
      local h = ridge.graph(f, x):optimize(FOLD):check()
      assert.truthy(ops(h):find(' batch_norm ', 1, true), why)
    end
    stays(function(y) return norm(conv(y)) end, 'training')
    norm:eval()
    conv:eval()
    stays(function(y)
      local z = conv(y)
      return norm(z), z
    end, 'the convolution is a result too')
    stays(function(y) return norm(conv(y):relu()) end, 'something stands between')
    stays(function(y) return norm(y:narrow(2, 1, 1):expand(2, 4, 6, 6)) end, 'no convolution')
    stays(function(y)
      local z = norm(conv(y))
      conv.weight:detach():mul_(0.5)
      return z
    end, 'the weight is written to later')
    stays(function(y)
      local image = y * 2
      local z = norm(conv(image))
      return z, image:mul_(0.5)
    end, 'the image is written to later')
    for _, name in ipairs { 'running_mean', 'running_var', 'weight', 'bias' } do
      stays(function(y)
        local z = norm(conv(y))
        norm:state()[name]:detach():mul_(0.5)
        return z
      end, name .. ' of the norm is written to later')
    end
    stays(function(y) norm(conv(y)):sum():backward() end, 'the backward pass reads what is between')
  end)

  it('goes on where y is viewed and written over', function()
    local net = nn.Sequential(nn.Conv2d(3, 4, 3), lived_in(nn.BatchNorm(4))):eval()
    local x = ridge.randn(2, 3, 6, 6)
    local function f(a)
      local y = ridge.inference(net, a)
      y:narrow(2, 1, 1):fill_(2)
      return y:transpose(1, 2):contiguous()
    end
    local h = ridge.graph(f, x):optimize(FOLD):check()
    assert.falsy(ops(h):find(' batch_norm ', 1, true))
    assert.truthy(distance(h:plan():run(), f(x)) < 1e-5)
  end)

  it('says so where there is no memory, and changes nothing', function()
    local net = nn.Sequential(nn.Conv2d(3, 4, 3), lived_in(nn.BatchNorm(4))):eval()
    local g = ridge.graph(net, ridge.randn(2, 3, 6, 6))
    local before, names, slot = g:json(), ffi.new('const char *[1]', FOLD), ffi.new 'rg_graph *[1]'
    local n, status = 0
    repeat
      n = n + 1
      C.rg_alloc_fail_at(n)
      status = tonumber(C.rg_graph_optimize(g._p, names, 1, slot))
      C.rg_alloc_fail_at(0)
      assert.truthy(status == 0 or status == C.RG_ENOMEM, tostring(status))
    until status == 0
    assert.truthy(n > 20, n)
    C.rg_graph_release(slot[0])
    assert.equal(before, g:json())
  end)
end)

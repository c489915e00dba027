-- SPDX-License-Identifier: MIT
-- net:analyze on networks whose parameters and multiply-adds are published.

local ridge = require 'ridge'
local nets = dofile 'tests/lua/analyze/nets.lua'
local peers = dofile 'scripts/peers/nets.lua'

local COUNTED = { rounds = 0, backward = false, roof = false }

-- FLOPs are two for each published multiply-add, within one percent.
local function is_twice(multiply_adds, a)
  assert.equal(a.flops, 2 * a.multiply_adds)
  assert.near(1, a.flops / (2 * multiply_adds), 0.01)
end

describe('the published figures', function()
  it('of LeNet-5: LeCun et al., 1998, section II.B', function()
    local a = nets.lenet5():analyze(ridge.randn(1, 1, 32, 32), COUNTED)
    assert.equal(60000, a.params) -- "60,000 trainable free parameters"
    -- the paper gives connections: a multiply-add for each weight, and one for each bias
    local by = {}
    for _, layer in ipairs(a.layers) do by[layer.name] = layer end
    assert.equal(122304, by['1'].flops / 2 + 6 * 28 * 28) -- C1
    local c3 = 16 * 10 * 10
    for name, layer in pairs(by) do
      if name:match '^4%.' then c3 = c3 + layer.flops / 2 end
    end
    assert.equal(151600, c3)
    assert.equal(48120, by['7'].flops / 2 + 120) -- C5
    assert.equal(10164, by['10'].flops / 2 + 84) -- F6
    -- 340,908 in all, of which are of no product: biases, S2 and S4 (5,880 and 2,000), the fixed
    -- output layer (840)
    local others = 6 * 28 * 28 + 1600 + 120 + 84 + 5880 + 2000 + 840
    assert.equal(340908 - others, a.multiply_adds)
    -- and those of the network that is called LeNet-5 today, every map of C3 reading all of S2
    local today = peers.lenet():analyze(ridge.randn(1, 1, 28, 28), COUNTED)
    assert.equal(61706, today.params)
  end)

  it('of AlexNet: torchvision, alexnet, 61,100,840 parameters and 0.714 G multiply-adds', function()
    local a = nets.alexnet():analyze(ridge.randn(1, 3, 224, 224), COUNTED)
    assert.equal(61100840, a.params)
    is_twice(0.714e9, a)
  end)

  it('of ResNet-18: torchvision, resnet18, 11,689,512 parameters and 1.814 G multiply-adds; He et '
    .. 'al., 2016, table 1: 1.8e9', function()
    local net = peers.resnet { 2, 2, 2, 2 }
    local a = net:analyze(ridge.randn(1, 3, 224, 224), COUNTED)
    assert.equal(11689512, a.params)
    is_twice(1.814e9, a)
    assert.equal(9600, a.buffers) -- running means and variances: no parameters
    assert.equal(4 * (11689512 + 9600), a.bytes)
  end)

  it('of MobileNet: Howard et al., 2017, table 8: 4.2 M parameters, 569 M multiply-adds', function()
    local a = nets.mobilenet_v1():analyze(ridge.randn(1, 3, 224, 224), COUNTED)
    assert.equal(4231976, a.params)
    is_twice(569e6, a)
  end)

  -- FLOPs of a token by Kaplan et al., 2020, table 1: 2 for each weight of the layers and of the
  -- de-embedding, and 2 n_layer n_ctx d_attn for attention
  it('of GPT-2 with 12 layers: 124,439,808 parameters, Kaplan et al., 2020, table 1', function()
    local context = 32
    local a = nets.gpt2():analyze(ridge.randint(0, 50257, 1, context):to 'i64', COUNTED)
    assert.equal(124439808, a.params)
    local weights = 12 * 12 * 768 ^ 2 + 50257 * 768
    is_twice(context * (weights + 12 * context * 768), a)
    assert.matches('weight of head is wte.weight', table.concat(a.notes, '\n'))
  end)
end)

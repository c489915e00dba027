-- SPDX-License-Identifier: MIT
-- Observers, whole numbers and the loss of distillation beside PyTorch's, from a file that
-- scripts/peers/quant_fixtures.py wrote.
local ridge = require 'ridge'
local observers = require 'ridge.quant.observers'
local scheme = require 'ridge.quant.scheme'

local t = ridge.load 'tests/fixtures/quant.safetensors'

local function range_of(kind, dtype)
  local o = observers.new(kind, { dtype = dtype, percentile = 99.99 }, 'a layer')
  for i = 1, 5 do o:add(t.batches[i]) end
  local lo, hi = o:range()
  return scheme.of(lo, hi, dtype)
end

describe('observers', function()
  for _, kind in ipairs { 'minmax', 'average' } do
    for _, dtype in ipairs { 'u8', 'i8' } do
      it(('%s for %s gives the scale and the zero point of PyTorch, and its integers'):format(kind,
        dtype), function()
        local scale, zero = range_of(kind, dtype)
        local name = kind .. '.' .. dtype
        assert.near(1, scale / t[name .. '.scale']:item(), 1e-6)
        assert.equal(t[name .. '.zero']:item(), zero)
        local codes = ridge.quantize(t.batches, t[name .. '.scale'], zero, { type = dtype })
        assert.same(t[name .. '.codes']:tolist(), codes:tolist())
      end)
    end
  end

  it('mse loses no more than what PyTorch finds in its histogram', function()
    for _, dtype in ipairs { 'u8', 'i8' } do
      local scale, zero = range_of('mse', dtype)
      local codes = ridge.quantize(t.batches, scale, zero, { type = dtype })
      local off = (codes:to 'f64' - zero) * scale - t.batches:to 'f64'
      assert.is_true((off * off):sum():item() <= 1.02 * t['mse.' .. dtype .. '.error']:item())
    end
  end)

  it('weights have a scale for each channel, and the same integers', function()
    local int8 = require 'ridge.quant.int8'
    local w, scale = int8.of_weight(t.weight, 'channel', 'x')
    assert.is_true((scale / t['weight.scale'] - 1):abs():max():item() < 1e-6)
    assert.same(t['weight.codes']:tolist(), w:tolist())
  end)
end)

describe('distillation_loss', function()
  it('is KLDivLoss T^2, and its gradient', function()
    for _, case in ipairs { { 1, 1 }, { 4, 1 }, { 4, 0.3 }, { 20, 0.5 } } do
      local name = ('distill.%g.%g.'):format(case[1], case[2])
      local student = t[name .. 'student']:clone():requires_grad_()
      local loss = ridge.nn.distillation_loss(student, t[name .. 'teacher'], t[name .. 'labels'],
        { temperature = case[1], alpha = case[2] })
      assert.near(t[name .. 'loss']:item(), loss:item(), 1e-10)
      loss:backward()
      assert.is_true((student.grad - t[name .. 'gradient']):abs():max():item() < 1e-10)
    end
  end)
end)

-- SPDX-License-Identifier: MIT
--- What layers of quantization tell of themselves, and say at the line of a call they do not take.

local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e.message
end
describe('layers of quantization', function()
  it('tell the range of what comes in, and whether they hand bytes on', function()
    ridge.seed(3)
    local data = ridge.data.Loader({ ridge.randn(4, 1, 5, 5) }, { batch = 4 })
    local net = ridge.quant.static(nn.Sequential(nn.Conv2d(1, 2, 2, { seed = 1 }), nn.ReLU(),
      nn.Conv2d(2, 2, 1, { seed = 2 }), nn.Flatten(), nn.Linear(32, 3, { seed = 3 })):eval(),
      { rows = false, calibrate = data })
    local list = {}
    for _, layer in ipairs { net[1], net[3], net[5] } do
      list[#list + 1] = tostring(layer):match ', input.*$':gsub('at %d+', 'at N')
    end
    local before = ', input u8 with zero at N'
    assert.same({ before .. ', bytes on)', before .. ', bytes on)', before .. ')' }, list)
    assert.is_nil(tostring(ridge.quant.dynamic(nn.Sequential(nn.Linear(4, 2)):eval(),
      { rows = false })[1]):find 'input')
  end)

  it('say at the line of their call what they take', function()
    local dense = nn.Sequential(nn.Linear(32, 4, { seed = 1 })):eval()
    local data = ridge.data.Loader({ ridge.randn(8, 32) }, { batch = 8 })
    local conv = ridge.quant.static(nn.Sequential(nn.Conv2d(1, 2, 2), nn.MaxPool2d(2),
      nn.Conv2d(2, 2, 1)):eval(), { rows = false,
      calibrate = ridge.data.Loader({ ridge.randn(4, 1, 5, 5) }, { batch = 4 }) })
    for class, layer in pairs {
      ['quant.Linear'] = ridge.quant.dynamic(dense, { rows = false })[1],
      ['quant.Linear '] = ridge.quant.static(dense, { calibrate = data, rows = false })[1],
      ['quant.PackedLinear'] = ridge.quant.weights(dense, { rows = false })[1],
      ['quant.Conv2d'] = conv[1], ['quant.MaxPool2d'] = conv[2] } do
      class = class:match '%S+'
      assert.equal(class, getmetatable(layer).__name)
      local ok, err = pcall(function() layer(3) end)
      assert.is_false(ok)
      assert.matches('layers_spec.lua:%d+: ' .. class:gsub('%.', '%%.') .. ':? ', tostring(err))
      if class:find 'Linear' then
        assert.matches('^' .. class:gsub('%.', '%%.')
          .. ': x is f32%[2,31%], and its last axis is to have 32 elements',
          failure(layer, ridge.ones(2, 31)))
        assert.matches('its last axis is to have 32', failure(layer, ridge.tensor(1)))
      end
      if class ~= 'quant.MaxPool2d' then
        assert.matches('^' .. class:gsub('%.', '%%.') .. ': no gradient goes through rounding',
          failure(layer, ridge.ones(1, 32):requires_grad_()))
        ridge.no_grad(function()
          if class:find 'Linear' then layer(ridge.ones(1, 32):requires_grad_()) end
        end)
        assert.matches('^' .. class:gsub('%.', '%%.') .. ': a quantized layer is not trained',
          failure(layer.train, layer))
        assert.is_true(rawequal(layer, layer:train(false)))
      end
    end
  end)
end)

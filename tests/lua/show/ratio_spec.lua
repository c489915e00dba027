-- SPDX-License-Identifier: MIT
-- Ratios as text: changes in per cent, factors from two on; no end leaves the range of a time.

local ratio = require 'ridge.show.ratio'

describe('a ratio', function()
  it('is a change near one and a factor far from it', function()
    for x, text in pairs { [1] = '+0.00 %', [1.025] = '+2.50 %', [0.6] = '-40.00 %',
        [2] = 'x2', [22] = 'x22', [415.66] = 'x416', [0.5] = 'x0.5', [0.045] = 'x0.045' } do
      assert.equal(text, ratio.text(x))
    end
  end)

  it('has both ends of its interval in one way', function()
    assert.equal('+1.00 % .. +3.00 %', ratio.range(1.01, 1.03))
    assert.equal('x0.9 .. x22', ratio.range(0.9, 22))
    assert.equal('x0.0476 .. x1.5', ratio.range(1 / 21, 1.5))
    assert.equal('-1.00 % to +1.00 %', ratio.range(0.99, 1.01, ' to '))
  end)

  it('is unknown when it is none', function()
    for _, x in ipairs { -0.2, 0 / 0, -math.huge } do assert.equal('?', ratio.text(x)) end
    assert.equal('?', ratio.text(nil))
    assert.equal('? .. +1.00 %', ratio.range(-5, 1.01))
    assert.equal('x0 .. any', ratio.range(0, math.huge))
  end)

  it('of former rows: an end below 0 lies as far below as the other lies above', function()
    assert.equal(5, ratio.lower(10, -5, 20))
    assert.equal(5, ratio.lower(10, 0, 20))
    assert.equal(8, ratio.lower(10, 8, 20))
    assert.equal(10, ratio.lower(10, 0, 10))
    assert.is_nil(ratio.lower(10, nil, nil))
    assert.equal(-3, ratio.lower(-2, -3, -1))
  end)
end)

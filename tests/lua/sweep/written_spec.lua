-- SPDX-License-Identifier: MIT
-- Values as they are typed on the command line.

local written = require 'ridge.sweep.written'

describe('values as they are typed', function()
  it('are a value, a list, a range, steps or factors', function()
    for text, list in pairs {
      ['64'] = { 64 }, ['1,8, 32'] = { 1, 8, 32 }, ['{relu,gelu}'] = { 'relu', 'gelu' },
      ['1..4'] = { 1, 2, 3, 4 }, ['128..512+128'] = { 128, 256, 384, 512 },
      ['1..256*2'] = { 1, 2, 4, 8, 16, 32, 64, 128, 256 }, ['1..100*4'] = { 1, 4, 16, 64 },
      ['0.5..1+0.25'] = { 0.5, 0.75, 1 }, ['true,false'] = { true, false },
      [' a-b.c '] = { 'a-b.c' }, ['0..1/5'] = { 0, 0.25, 0.5, 0.75, 1 },
      ['log:1e-4..1e-1/4'] = { 1e-4, 1e-3, 1e-2, 1e-1 }, ['-2..2+2'] = { -2, 0, 2 },
      ['probe: 8..10'] = { 8, 9, 10 }, ['1e1..1e3*10'] = { 10, 100, 1000 },
    } do
      assert.same(list, written.values(text), text)
    end
  end)

  it('are a range to draw from', function()
    assert.equal('~log:0.0001..0.1', tostring(written.values '~log:1e-4..1e-1'))
    assert.equal('~1..8', tostring(written.values ' ~ 1..8'))
  end)

  it('say what is wrong with them', function()
    for text, pattern in pairs {
      ['1..'] = 'numbers only', ['a..b'] = 'numbers only', ['1..4*x'] = 'numbers only',
      ['4..1'] = 'empty', ['1..4*1'] = 'empty', ['1,,2'] = 'one is missing', [''] = 'missing',
      ['1,1'] = 'twice', ['os.exit()'] = 'neither a number nor a word', ['nan..1'] = 'finite',
      ['log:1..8'] = 'says how many', ['probe:1..8*2'] = 'no steps', ['lag:1..8'] = 'none of',
      ['~1..8+2'] = 'no steps', ['~8..1'] = 'empty', ['1..1e12'] = 'more than',
      ['1..2/1e12'] = 'more than', ['probe:1..1e15'] = 'no list', ['1..9*1.0000001'] = 'more than',
    } do
      local ok, err = pcall(written.values, text)
      assert.is_false(ok, text)
      assert.truthy(tostring(err):find(pattern), tostring(err))
    end
  end)

  it('belong to a name', function()
    assert.same({ batch = { 1, 2 }, k = { 3 } }, written.parameters { 'batch=1..2', ' k = 3' })
    for _, list in ipairs { { 'batch' }, { '=3' }, { 'a b=3' }, { 'k=1', 'k=2' }, { 'k=' } } do
      assert.is_false((pcall(written.parameters, list)))
    end
  end)
end)

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
      [' a-b.c '] = { 'a-b.c' },
    } do
      assert.same(list, written.values(text), text)
    end
  end)

  it('say what is wrong with them', function()
    for text, pattern in pairs {
      ['1..'] = 'numbers only', ['a..b'] = 'numbers only', ['1..4*x'] = 'numbers only',
      ['4..1'] = 'empty', ['1..4*1'] = 'empty', ['1,,2'] = 'one is missing', [''] = 'missing',
      ['1,1'] = 'twice', ['os.exit()'] = 'neither a number nor a word', ['nan..1'] = 'finite',
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

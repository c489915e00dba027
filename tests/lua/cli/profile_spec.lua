-- SPDX-License-Identifier: MIT
-- `ridge profile`: tables and files of a recipe's run, also of one that raises or ends the program.

local canonical = require 'ridge.store.canonical'

local recipe, out

local function write(text)
  recipe = os.tmpname()
  local file = assert(io.open(recipe, 'w'))
  file:write(text)
  file:close()
end

local function run(arguments)
  local pipe = assert(io.popen(('./ridge profile %s 2>&1; echo "status $?"'):format(arguments)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

describe('ridge profile', function()
  before_each(function()
    out = os.tmpname()
    write [[
      --- a recipe
      local ridge = require 'ridge'
      local opt = ridge.args { { 'n', 3, 'times' }, { 'bad', false, 'raise' },
        { 'status', -1, 'end with it' } }
      local x = ridge.randn(32, 32)
      for _ = 1, opt.n do ridge.profile_range('multiplies', x.matmul, x, x) end
      if opt.bad then error 'on purpose' end
      if opt.status >= 0 then os.exit(opt.status) end
      x:exp()]]
  end)

  after_each(function()
    os.remove(recipe)
    os.remove(out)
  end)

  it('prints tables, and gives the recipe its own options', function()
    local text = run(recipe .. ' --sort calls --rows 1 -- --n 7')
    assert.matches('\nmatmul +%S+ +7 ', text)
    assert.matches('%(and 2 operations more%)', text)
    assert.matches('\nmultiplies +7 ', text)
    assert.matches('status 0\n$', text)
  end)

  it('tells of a recipe that has nothing of ridge, or is no Lua, and advises nothing', function()
    for text, status in pairs { [''] = 0, ['local n = 0 for i = 1, 9 do n = n + i end'] = 0,
        ['no Lua'] = 1 } do
      write(text)
      local said = run(recipe .. ' --trace ' .. out)
      assert.matches('\neverything else +[%d.]+[^\n]+ 100%.0 %%', '\n' .. said)
      assert.not_matches('try ', said)
      assert.matches(('status %d\n$'):format(status), said)
      assert.equal('table', type(canonical.decode(read(out))))
    end
  end)

  it('tells of a recipe that two presses of Ctrl-C end, however long that takes', function()
    write [[
      local ridge, host = require 'ridge', require 'ridge.host'
      local sums, clock = require 'ridge.profile.sums', require 'ridge.store.clock'
      local fill = sums.fill
      function sums.fill(...)
        clock.sleep(1.1) -- ridge's own Lua is spared for a second
        return fill(...)
      end
      ridge.ones(9):exp()
      host.interrupt()
      host.interrupt()
      for _ = 1, 10 do ridge.ones(9):log() end]]
    local text = run(('%s --trace %s'):format(recipe, out))
    assert.matches('interrupted\n', text)
    assert.matches('\nexp +1 ', text)
    assert.is_nil(text:find '\nlog')
    assert.matches('status 130\n$', text)
    assert.matches('"exp"', read(out))
  end)

  it('writes what is asked for', function()
    local png = out .. '.png'
    assert.matches('status 0', run(('%s --trace %s'):format(recipe, out)))
    assert.is_true(#canonical.decode(read(out)).traceEvents > 5)
    assert.matches('status 0', run(('%s --flame %s'):format(recipe, out)))
    assert.matches('^<%?xml', read(out))
    assert.matches('status 0', run(('%s --folded %s'):format(recipe, out)))
    assert.matches('all;multiplies;matmul %d', read(out))
    assert.matches('status 0', run(('%s --speedscope %s'):format(recipe, out)))
    assert.equal('sampled', canonical.decode(read(out)).profiles[1].type)
    assert.matches('status 0', run(('%s --plot %s'):format(recipe, png)))
    assert.equal('\137PNG', read(png):sub(1, 4))
    os.remove(png)
    assert.matches('status 0', run(('%s --roofline %s'):format(recipe, png)))
    assert.equal('\137PNG', read(png):sub(1, 4))
    os.remove(png)
    assert.matches('%-%-roofline: figures are PNG files', (run(recipe .. ' --roofline x.svg')))
  end)

  it('keeps what was measured of a recipe that raises, or ends the program', function()
    local text = run(recipe .. ' -- --bad')
    assert.matches('on purpose', text)
    assert.matches('\nmatmul +%S+ +3 ', text)
    assert.is_nil(text:find '\nexp ')
    assert.matches('status 1\n$', text)
    text = run(recipe .. ' -- --status 7')
    assert.matches('\nmatmul +%S+ +3 ', text)
    assert.matches('status 7\n$', text)
    text = run(recipe .. ' -- --status 0')
    assert.matches('\nmatmul +%S+ +3 ', text)
    assert.matches('status 0\n$', text)
  end)

  it('says what could not be written, and writes the rest', function()
    local text = run(('%s --trace /dev/full --folded %s'):format(recipe, out))
    assert.matches('/dev/full cannot be written: No space left on device', text)
    assert.matches('\nmatmul ', text)
    assert.matches('matmul', read(out))
    assert.matches('status 1\n$', text)
  end)

  it('knows mistakes before the recipe runs', function()
    assert.matches('the name of a recipe is missing', run '')
    assert.matches("there is no recipe 'nowhere'", run 'nowhere')
    assert.matches("'colour' is none of", run(recipe .. ' --sort colour'))
    assert.matches('must end in .png', run(recipe .. ' --plot x.jpg'))
    local text = run(recipe .. ' --flame /nowhere/x.svg')
    assert.matches("there is no folder '/nowhere'", text)
    assert.is_nil(text:find 'matmul')
    assert.matches('usage: ridge profile %[options%] RECIPE', run '--help')
  end)
end)

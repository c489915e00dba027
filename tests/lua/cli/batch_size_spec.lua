-- SPDX-License-Identifier: MIT
-- `ridge batch-size` as a user types it.

local batch_size = require 'ridge.cli.batch_size'
local canonical = require 'ridge.store.canonical'
local program = require 'tests.lua.repl.program'

describe('ridge batch-size', function()
  local folder
  setup(function() folder = program.folder() end)
  teardown(function() program.remove(folder) end)

  local function run(...) return program.run { 'batch-size', '--db', folder .. '/b.db', ... } end

  it('prints the curve and why it stopped, and draws it', function()
    local status, out, err = run('linear{64,32}', '--memory', '512KB', '--out', folder .. '/c.png')
    assert.equal(0, status, err)
    assert.truthy(out:find 'largest that fits: %d+\nstopped because a batch of %d+ ran out of')
    assert.truthy(err:find 'batch 1: ')
    local file = assert(io.open(folder .. '/c.png'))
    file:close()
  end)

  it('gives JSON, with status 2 when not even the least fits', function()
    local status, out = run('linear{64,32}', '--memory', '512KB', '--max', '8', '--as', 'json')
    local document = canonical.decode(out)
    assert.same({ 0, 'ridge-batch-size', 1, 8, 'max', 4 }, { status, document.format,
      document.version, document.best, document.stop, #document.tries })
    status, out = run('linear{64,32}', '--memory', '1KB', '--as', 'json')
    assert.equal(2, status)
    assert.equal(canonical.null, canonical.decode(out).best)
  end)

  it('says in a sentence what is wrong, with status 1', function()
    for pattern, words in pairs {
      ['is none of sgd, adam, adamw, lion'] = { 'linear{8,4}', '--optimizer', 'x' },
      ["is none of inference, throughput, training"] = { 'linear{8,4}', '--kind', 'x' },
      ["'lots' is not like 512MB"] = { 'linear{8,4}', '--memory', 'lots' },
      ['end in .png'] = { 'linear{8,4}', '--out', 'x.jpg' },
      ['a model is missing'] = {},
      ['one model at a time'] = { 'linear{8,4}', 'linear{4,2}' },
      ["did you mean 'linear'"] = { 'liner{8,4}' },
    } do
      local status, out, err = run(unpack(words))
      assert.equal(1, status, err)
      assert.equal('', out)
      assert.truthy(err:find(pattern), err)
    end
  end)

  it('reads sizes of memory', function()
    for text, bytes in pairs { ['512'] = 512, ['1.5KB'] = 1536, ['2 gb'] = 2 ^ 31,
        ['3MiB'] = 3 * 2 ^ 20 } do
      assert.equal(bytes, batch_size.bytes(text))
    end
    for _, text in ipairs { '', 'x', '-1', '0', '1PB' } do
      assert.is_nil((batch_size.bytes(text)))
    end
  end)

  it('is listed with its dash', function()
    local _, out = program.run { '--help' }
    assert.truthy(out:find '\n  batch%-size +%S')
    assert.truthy(select(3, program.run { 'batchsize' }):find "did you mean 'batch%-size'")
  end)
end)

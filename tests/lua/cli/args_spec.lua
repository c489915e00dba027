-- SPDX-License-Identifier: MIT
local args = require 'ridge.cli.args'

local SPEC = {
  { 'widths', { 512, 1024 }, 'layer widths' },
  { 'lr', 3e-3, 'learning rate', min = 0 },
  { 'epochs', 20, 'passes', integer = true },
  { 'dtype', 'f32', 'element type', choices = { 'f32', 'bf16' } },
  { 'names', { 'a' }, 'a list of words' },
  { 'resume', false, 'go on' },
  { 'shuffle', true, 'in a new order' },
  { 'bucket_mb', 25, 'bucket' },
}

local function read(...) return args.read(SPEC, { ... }) end
local function reason(...)
  local values, why = read(...)
  assert.is_nil(values)
  return why
end

describe('the options of a recipe', function()
  it('are their defaults, as copies', function()
    local values = read()
    assert.same({ 512, 1024 }, values.widths)
    assert.equal(3e-3, values.lr)
    assert.is_false(values.resume)
    values.widths[1] = 0
    assert.same({ 512, 1024 }, read().widths)
  end)

  it('hold the ends of their range, and are switched off under either spelling', function()
    local spec = { { 'n', 2, 'a number', min = 1, max = 8 }, { 'dry_run', true, 'a flag' } }
    for _, n in ipairs { 1, 8 } do assert.equal(n, args.read(spec, { '--n', tostring(n) }).n) end
    for _, n in ipairs { 0, 9 } do assert.is_nil((args.read(spec, { '--n', tostring(n) }))) end
    for _, word in ipairs { '--no-dry-run', '--no-dry_run', '--no_dry_run', '--dry-run=no' } do
      assert.is_false(args.read(spec, { word }).dry_run, word)
    end
  end)

  it('take their type from the default', function()
    local values = read('--widths', '1,2,3', '--lr=1e-4', '--dtype', 'bf16', '--names', 'x, y',
      '--epochs', '3')
    assert.same({ 1, 2, 3 }, values.widths)
    assert.equal(1e-4, values.lr)
    assert.equal('bf16', values.dtype)
    assert.same({ 'x', 'y' }, values.names)
    assert.same({}, read('--widths', '').widths)
    assert.equal(7, #read('--widths=1,2,3,4,5,6,7').widths)
  end)

  it('are numbers in a list that is empty when left out, where it has limits', function()
    local spec = { { 'batch', {}, 'rows', integer = true, min = 1, max = 1e9 },
      { 'mb', {}, 'MB', min = 1e-6, max = 1e6 }, { 'words', {}, 'words' } }
    local values = args.read(spec, { '--batch', '8,16', '--mb', '0.5', '--words', '8,a' })
    assert.same({ { 8, 16 }, { 0.5 }, { '8', 'a' } }, { values.batch, values.mb, values.words })
    for _, each in ipairs { { 'batch', 'abc' }, { 'batch', '1.5' }, { 'batch', '0' },
      { 'batch', 'nan' }, { 'batch', '1e10' }, { 'batch', ',' }, { 'mb', '0' }, { 'mb', 'inf' },
      { 'mb', 'os.exit()' }, { 'mb', '1,,2' } } do
      local found, why = args.read(spec, { '--' .. each[1], each[2] })
      assert.is_nil(found, each[2])
      assert.matches('^%-%-' .. each[1] .. ': ', why)
    end
  end)

  it('write to a file of their own', function()
    local spec = { { 'out', '', 'a picture', short = 'o', writes = 'file' },
      { 'time_line', '', 'another', writes = 'file' } }
    for _, other in ipairs { 'a.png', './a.png', './/a.png' } do
      local found, why = args.read(spec, { '-o', 'a.png', '--time-line', other })
      assert.is_nil(found)
      assert.matches("^%-%-time%-line: 'a.png' is what %-%-out writes, too$", why)
    end
    assert.is_table(args.read(spec, { '-o', 'a.png', '--time-line', 'b.png' }))
    assert.is_table(args.read(spec, { '-o', '-', '--time-line', '-' }))
    assert.is_table(args.read(spec, { '-o', '/dev/null', '--time-line', '/dev/null' }))
    assert.is_table(args.read(spec, {}))
  end)

  it('are switched on and off', function()
    local values = read('--resume', '--no-shuffle')
    assert.is_true(values.resume)
    assert.is_false(values.shuffle)
    assert.is_false(read('--shuffle=no').shuffle)
    assert.is_true(read('--resume=true').resume)
  end)

  it('may be written with - or _', function()
    assert.equal(8, read('--bucket-mb', '8').bucket_mb)
    assert.equal(8, read('--bucket_mb=8').bucket_mb)
  end)

  it('may have negative values', function()
    assert.equal(-3, (args.read({ { 'x', 0 } }, { '--x', '-3' })).x)
  end)

  it('of one letter are called as they are typed', function()
    local spec = { { 'n', 10, min = 1, short = 'n' } }
    assert.equal('-n: 0 is less than 1', select(2, args.read(spec, { '-n', '0' })))
    assert.equal('-n needs a value', select(2, args.read(spec, { '-n' })))
  end)

  it('that are unknown name the near one', function()
    assert.equal("unknown option '--widhts' (did you mean '--widths'?)", reason('--widhts', '1'))
    assert.truthy(reason("--bucket-md=1"):find("--bucket-mb", 1, true))
  end)

  it('that are wrong say so with the value', function()
    assert.equal("--lr: 'fast' is not a number", reason('--lr', 'fast'))
    assert.equal("--lr: 'nan' is not a number", reason('--lr', 'nan'))
    assert.equal('--lr: -1 is less than 0', reason('--lr=-1'))
    assert.equal("--epochs: '2.5' is not a whole number", reason('--epochs', '2.5'))
    assert.equal("--dtype: 'bf61' is none of f32, bf16 (did you mean 'bf16'?)",
      reason('--dtype', 'bf61'))
    assert.equal("--widths: 'x' is not a number", reason('--widths', '1,x'))
    -- of a list without a default
    for option, wrong in pairs { integer = true, min = 1, max = 9 } do
      local said = select(2, args.read({ { 'n', {}, [option] = wrong } }, { '-n', '4,4..8' }))
      assert.equal("-n: '4..8' is not a number", said)
    end
    assert.same({ 4, 8 }, args.read({ { 'n', {}, min = 1 } }, { '-n', '4,8.0' }).n)
    for _, digits in ipairs { '9007199254740993', '1e300', 'inf', '-1e300' } do -- of no such number
      assert.matches('is a larger number than can be counted with$', select(2,
        args.read({ { 'n', 1, integer = true } }, { '--n', digits })))
    end
    assert.equal('-n: 1e300 is more than 9',
      select(2, args.read({ { 'n', 1, integer = true, max = 9 } }, { '--n', '1e300' })))
    assert.equal(2 ^ 53 - 1, args.read({ { 'n', 1, integer = true } }, { '--n',
      '9007199254740991' }).n)
    assert.equal('--lr needs a value', reason '--lr')
    assert.equal('--lr needs a value', reason('--lr', '--resume'))
    assert.equal("--resume: 'perhaps' is neither true nor false", reason '--resume=perhaps')
  end)

  it('leave no argument unread', function()
    assert.truthy(reason('quick'):find("unexpected argument 'quick'", 1, true))
    local values, rest = args.read({ { 'n', 1 }, rest = 'FILES' }, { 'a', '--n', '2', '--', '--b' })
    assert.equal(2, values.n)
    assert.same({ 'a', '--b' }, rest)
  end)

  it('may have one letter, and stand several times', function()
    local spec = { { 'param', {}, 'values', short = 'P', each = true }, { 'jobs', 1, short = 'j' },
      { 'quiet', false, short = 'q' }, rest = 'FILES' }
    local values, rest = args.read(spec, { '-P', 'a=1,2', 'x', '-Pb=3', '--param', 'c=', '-j4',
      '-q', '--', '-P' })
    assert.same({ 'a=1,2', 'b=3', 'c=' }, values.param)
    assert.same({ 4, true }, { values.jobs, values.quiet })
    assert.same({ 'x', '-P' }, rest)
    assert.same({ {}, 1 }, { args.read(spec, {}).param, args.read(spec, {}).jobs })
    for _, words in ipairs { { '-P' }, { '-x' }, { '-qq' }, { '-jx' } } do
      assert.is_nil((args.read(spec, words)))
    end
    assert.truthy(args.help(spec, 'x'):find '%-P, %-%-param TEXT')
    -- a name of one letter is written as the help writes it, and with two dashes
    spec = { { 'a', {}, 'parameters' }, { 'n', 3, 'many' } }
    assert.truthy(args.help(spec, 'x'):find '%-a A,B,')
    for _, words in ipairs { { '-a', 'x=1,y=2', '-n5' }, { '--a', 'x=1,y=2', '--n', '5' } } do
      values = args.read(spec, words)
      assert.same({ { 'x=1', 'y=2' }, 5 }, { values.a, values.n })
    end
  end)

  it('of a call may be false, empty or a list, and none is passed over', function()
    local spec = { { 'state', { 'oom', 'error' }, choices = { 'oom', 'error', 'crashed' } },
      { 'by', '' }, { 'reuse', true }, { 'param', {}, each = true } }
    local function called(off, ...)
      return args.read(spec, { off = off, once = true, ... })
    end
    local values = called({ 'reuse', 'param', 'by' }, '--state=oom', '--state=crashed')
    assert.same({ 'oom', 'crashed' }, values.state)
    assert.same({ false, {}, '' }, { values.reuse, values.param, values.by })
    assert.same({}, called({ 'state' }).state)
    assert.equal("unknown option '--bye' (did you mean '--by'?)", select(2, called { 'bye' }))
    assert.equal('--by: it is one, not a list', select(2, called({}, '--by=a', '--by=b')))
    -- in the shell the last word holds, and lists grow
    values = args.read(spec, { '--by=a', '--by=b', '--state=error', '--state', 'oom,crashed' })
    assert.same({ 'b', { 'error', 'oom', 'crashed' } }, { values.by, values.state })
  end)

  it('have a help', function()
    assert.equal('help', reason '--help')
    local text = args.help(SPEC, 'x.lua')
    assert.truthy(text:find('usage: ridge x.lua [options]', 1, true))
    assert.truthy(text:find '%-%-widths A,B,%.%. +layer widths %(default 512,1024%)')
    assert.truthy(text:find 'f32 | bf16; default f32')
    assert.truthy(text:find '%-%-no%-shuffle')
  end)

  it('are refused where nothing can be written, before any work', function()
    local spec = { { 'out', 'results', 'folder', writes = 'folder' },
      { 'o', '', 'file', writes = 'file', short = 'o' } }
    for _, words in ipairs { { '--out', '/none/x' }, { '-o', '/none/x.png' },
        { '--o=/none/x.png' }, { '-o/dev/null/x' }, { '--out', '/dev/null' } } do
      local values, said = args.read(spec, words)
      assert.is_nil(values)
      assert.matches("cannot be written: there is no folder '", said)
    end
    assert.matches("'tests/lua' cannot be written: it is a folder$", select(2, args.read(spec,
      { '-o', 'tests/lua' })))
    local place = require 'ridge.store.place'
    local writable = place.writable
    -- root may write anywhere
    function place.writable(path) return path ~= '/tmp' and path ~= '.' end
    local said = {}
    for i, words in ipairs { { '-o', '/tmp/x.png' }, { '--out=/tmp/' }, { '-o', 'x.png' },
        { '-o', '-' } } do
      said[i] = select(2, args.read(spec, words))
    end
    place.writable = writable
    assert.matches("'/tmp/x.png' cannot be written: '/tmp' may not be written to$", said[1])
    assert.matches("'/tmp/' cannot be written: '/tmp' may not be written to$", said[2])
    assert.matches("'x.png' cannot be written: '%.' may not be written to$", said[3])
    assert.same({}, said[4])
    for _, words in ipairs { {}, { '--out', '/tmp' }, { '-o', 'x.png' }, { '-o', '/x' },
        { '-o', '/tmp/none.png' }, { '--out', '.' } } do
      assert.is_table((args.read(spec, words)))
    end
  end)

  it('are refused when the list itself is wrong', function()
    for _, spec in ipairs { { { 'x' } }, { { 5, 1 } }, { { 'a', 1 }, { 'a', 2 } },
      { { 'a', 1, choice = {} } }, { { 'a', 1 }, about = 'x', more = 1 } } do
      assert.has_error(function() args.read(spec, {}) end)
    end
  end)
end)

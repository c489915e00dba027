-- SPDX-License-Identifier: MIT
--- What the readers of files give and refuse, whole, as approved: each file plain and packed; and
--- CSV in every dialect beside the table that it was written from.

local approved = dofile 'tests/lua/approved.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local seeded = dofile 'tests/lua/seeded.lua'
local told = dofile 'tests/lua/told.lua'
local ridge = require 'ridge'
local data = ridge.data

local random -- a function: a whole number from 1 to n

local function text_of(found)
  if ridge.is_tensor(found) then
    if found.count > 12 then return found:describe() .. ' ...' end
    local list = {}
    for i, v in ipairs(found:reshape(found.count):tolist()) do
      list[i] = type(v) == 'number' and ('%.17g'):format(v) or tostring(v)
    end
    return ('%s {%s}'):format(found:describe(), table.concat(list, ', '))
  end
  if type(found) == 'table' and getmetatable(found) == nil then
    local names, out = {}, {}
    for name in pairs(found) do names[#names + 1] = tostring(name) end
    table.sort(names)
    for i, name in ipairs(names) do
      out[i] = name .. '=' .. text_of(found[name] or found[tonumber(name)])
    end
    return '{' .. table.concat(out, ', ') .. '}'
  end
  return type(found) == 'function' and 'function' or tostring(found)
end

describe('a file', function()
  local folder, path, out

  before_each(function()
    folder, out = folders.new(), {}
    path = folder .. '/x'
  end)
  after_each(function() folders.remove(folder) end)

  local function write(text, name)
    local file = assert(io.open(name and folder .. '/' .. name or path, 'wb'))
    file:write(text)
    file:close()
  end

  local function pack(name)
    assert(os.execute(('gzip -n -c %s/%s > %s/packed && mv %s/packed %s/%s'):format(folder, name,
      folder, folder, folder, name)) == 0)
  end

  local function say(name, ok, found, names)
    local text = ok and text_of(found) .. (names and ' ' .. told.value(names) or '')
      or told.failure(found)
    out[#out + 1] = name .. ': ' .. text
  end

  local function try(name, f, ...) say(name, pcall(f, ...)) end

  -- What it gives plain, and packed where that is something else.
  local function read(name, text, f, ...)
    write(text)
    try(name, f, path, ...)
    pack 'x'
    local plain = out[#out]
    try(name, f, path, ...)
    if out[#out] == plain then out[#out] = nil else out[#out] = 'packed ' .. out[#out] end
  end

  local function check(name)
    local text = table.concat(out, '\n'):gsub(folder:gsub('%p', '%%%0'), 'FOLDER')
    text = text:gsub('_spec%.lua:%d+', '_spec.lua'):gsub('[%z\1-\9\11-\31\127]', '?')
    approved.check('data/' .. name, text)
  end

  it('is read or refused as approved', function()
    for _, f in ipairs { 'idx', 'npy', 'csv', 'text', 'cifar', 'mnist' } do
      try(f .. ' 3', data[f], 3)
      try(f .. ' nothing', data[f])
      try(f .. ' no file', data[f], folder .. '/none')
      try(f .. ' a folder', data[f], folder)
    end
    try('rows 3', data.rows, 3, { shape = {} })
    try('rows no file', data.rows, folder .. '/none', { shape = {} })
    -- IDX
    local function idx(kind, sizes, bytes)
      local text = '\0\0' .. string.char(kind, #sizes)
      for _, n in ipairs(sizes) do
        text = text .. string.char(math.floor(n / 2 ^ 24), math.floor(n / 2 ^ 16) % 256,
          math.floor(n / 256) % 256, n % 256)
      end
      return text .. bytes
    end
    for name, text in pairs { ['idx 1 empty'] = '', ['idx 2 short'] = '\0\0\8',
        ['idx 3 other'] = '\1\0\8\1', ['idx 4 other'] = '\0\2\8\1', ['idx 5 type'] = idx(0x0b,
          { 1 },
        'ab'), ['idx 6 no axes'] = idx(8, {}, ''), ['idx 7 axes'] = idx(8, { 1, 1, 1, 1, 1, 1, 1, 1,
        1 }, 'a'), ['idx 8 eight axes'] = idx(8, { 1, 1, 1, 1, 1, 1, 1, 3 }, 'abc'),
        ['idx 9 cut header'] = '\0\0\8\2\0\0\0\1\0\0', ['idx a cut'] = idx(8, { 2, 2 }, 'abc'),
        ['idx b more'] = idx(8, { 2, 2 }, 'abcde'), ['idx c bytes'] = idx(8, { 2, 2 },
          '\0\1\127\255'),
        ['idx d i8'] = idx(9, { 3 }, '\0\127\128'), ['idx e i32'] = idx(12, { 2 },
        '\0\0\1\2\255\255\255\254'), ['idx f f32'] = idx(13, { 2 }, '\63\128\0\0\192\32\0\0'),
        ['idx g f64'] = idx(14, { 1 }, '\63\248\0\0\0\0\0\0'), ['idx h huge'] = idx(8, { 2 ^ 31,
        2 ^ 31 }, ''), ['idx i most'] = idx(8, { 2 ^ 18, 2 ^ 18 }, ''),
        ['idx j one more'] = idx(8, { 2 ^ 18, 2 ^ 18 + 1 }, ''), ['idx k wide'] = idx(14,
        { 2 ^ 17, 2 ^ 16 }, ''), ['idx l wider'] = idx(14, { 2 ^ 17, 2 ^ 16 + 1 }, ''),
        ['idx m none'] = idx(8, { 0, 3 }, ''), ['idx n none and more'] = idx(8, { 0 }, 'a') } do
      read(name, text, data.idx)
    end
    table.sort(out)
    -- npy
    local function npy(head, bytes, version)
      local n = #head
      return '\147NUMPY' .. (version or '\1\0') .. string.char(n % 256, math.floor(n / 256) % 256)
        .. (version and string.char(math.floor(n / 65536) % 256, math.floor(n / 2 ^ 24)) or '')
        .. head .. bytes
    end
    local function head(descr, shape, order)
      return ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"):format(descr,
        order or 'False', shape)
    end
    for i, text in ipairs { '', '\147NUMPY\1\0\5', '\147NUMPX\1\0\0\0', npy('', ''), npy('nope',
      ''),
        npy(head('<f4', '(1,)'), '\0\0\128\63'), npy(head('<f4', '(1,)'), '\0\0\128\63', '\2\0'),
        npy(head('<f4', '(1,)'), '\0\0\128\63', '\3\0'), npy(head('=f4', '(1,)'), '\0\0\128\63'),
        npy(head('|u1', '(2,3)', 'True'), '\1\2\3\4\5\6'), npy(head('|u1', '(2,3)'),
          '\1\2\3\4\5\6'),
        npy(head('|b1', '(3,)', 'True'), '\1\0\1'), npy(head('|i1', '()'), '\255'),
        npy(head('<i4', '()', 'True'), '\1\0\0\0'), npy(head('<i8', '(1, 1)'), '\2\0\0\0\0\0\0\0'),
        npy(head('<f2', '(2,)'), '\0\60\0\192'), npy(head('<f8', '(0,)'), ''),
        npy(head('<f8', '(0,)'), 'a'), npy(head('>f4', '(1,)'), ''), npy(head('>u1', '(1,)'), 'a'),
        npy(head('<c8', '(1,)'), ''), npy(head('<f4', '(2,)'), '\0\0\128\63'),
        npy(head('<f4', '(1,)'), '\0\0\128\63a'), npy(head('<f4', '(1,1,1,1,1,1,1,1)'), '\0\0\0\0'),
        npy(head('<f4', '(1,1,1,1,1,1,1,1,1)'), '\0\0\0\0'), npy(head('|u1', '(68719476736,)'), ''),
        npy(head('|u1', '(68719476737,)'), ''), npy(head('<f8', '(8589934592,)'), ''),
        npy(head('<f8', '(8589934593,)'), ''), npy(head('<f4', '1'), ''),
        "\147NUMPY\1\0\4\0{}", npy("{'shape': (1,), 'fortran_order': False, 'descr': '<f4'}",
        '\0\0\128\63'), npy("{'shape': (1,), 'descr': '<f4'}", ''), npy(("z"):rep(65536), '',
          '\2\0'),
        npy(("z"):rep(65537), '', '\2\0'), npy(("z"):rep(100), ''):sub(1, 60) } do
      read('npy ' .. i, text, data.npy)
    end
    -- text
    read('text', 'abca\255\0b', data.text)
    read('text empty', '', data.text)
    write('ab', 'one')
    write('', 'two')
    write('ca', 'three')
    local three = { folder .. '/one', folder .. '/two', folder .. '/three' }
    try('text of three', data.text, three)
    try('text of none', data.text, {})
    local letters = data.text(three)
    for _, list in ipairs { { 0, 1, 2 }, {}, 3, { 3 }, { -1 }, { 'a' }, { 0.5 },
        ridge.tensor({ { 2, 1 }, { 0, 0 } }, { dtype = 'u8' }) } do
      try('decode', letters.decode, list)
    end
    -- rows
    write(('\1\0\0\0'):rep(6))
    for _, opts in ipairs { { shape = { 2 } }, { shape = { 2, 3 }, dtype = 'i32' }, { shape = {} },
        { shape = { 4 } }, { shape = { 4 }, rows = 1 }, { shape = { 4 }, rows = 2 },
        { shape = { 2 }, offset = 8 }, { shape = { 2 }, offset = 24 }, { shape = { 2 },
          offset = 25 },
        { shape = { 2 }, offset = 26, rows = 0 }, { shape = { 2 }, offset = 24, rows = 0 },
        { shape = { 0 } }, { shape = { 1.5 } }, { shape = { 'a' } }, { shape = { a = 1 } },
        { shape = { 2 }, dtype = 'zork' }, { shape = { 2 }, dtype = 'u8', to = 'f32', scale = 0.5 },
        { shape = { 2 }, scale = 2, dtype = 'i32' }, { shape = { 2 }, shift = 1, dtype = 'i32' },
        { shape = { 2 }, shift = 1, scale = 2 }, { shape = { 2 }, dtype = 'u8', to = 'f32' } } do
      try('rows ' .. told.value(opts), data.rows, path, opts)
    end
    -- CIFAR
    local one = ('\7'):rep(3072)
    write('\3' .. one .. '\4' .. one, 'data_batch_1.bin')
    try('cifar without a test', data.cifar, folder)
    write('\5' .. one, 'test_batch.bin')
    try('cifar', data.cifar, folder)
    write('\6' .. one, 'data_batch_5.bin')
    try('cifar two parts', data.cifar, folder)
    write('\6' .. one .. '\1', 'data_batch_5.bin')
    try('cifar cut', data.cifar, folder)
    write('', 'data_batch_5.bin')
    try('cifar empty', data.cifar, folder)
    write('\3\9' .. one .. '\4\8' .. one, 'train.bin')
    write('\3\7' .. one, 'test.bin')
    try('cifar of a hundred', data.cifar, folder)
    -- MNIST
    write(idx(8, { 2, 1, 2 }, 'abcd'), 'train-images-idx3-ubyte')
    try('mnist alone', data.mnist, folder)
    write(idx(8, { 2 }, '\1\2'), 'train-labels-idx1-ubyte')
    write(idx(8, { 1, 1, 2 }, 'ef'), 't10k-images-idx3-ubyte')
    write(idx(8, { 1 }, '\3'), 't10k-labels-idx1-ubyte')
    try('mnist', data.mnist, folder)
    for _, text in ipairs { idx(8, { 2 }, '\3\4'), idx(8, { 1, 1 }, '\3') } do
      write(text, 't10k-labels-idx1-ubyte')
      try('mnist labels', data.mnist, folder)
    end
    write(idx(8, { 1 }, '\3'), 't10k-labels-idx1-ubyte')
    write(idx(8, { 1, 2 }, 'ef'), 't10k-images-idx3-ubyte')
    try('mnist images', data.mnist, folder)
    check 'files'
  end)

  it('of lines is a table or refused as approved', function()
    for i, case in ipairs { { '' }, { '\n\n' }, { '1' }, { '1,2\n3,4' }, { '1,2\r\n3,4\r\n' },
        { '\239\187\1911,2\n3,4' }, { ' 1 , 2 \n\n  \n3,4' }, { '1,2\n3' }, { '1,2\n3,4,5' },
          { 'a,b\n1,2' },
        { 'a,b' }, { 'a,1\n2,3' }, { '1,a\n2,3' }, { '1,2\n3,a' }, { '1,2\n3,' }, { '1,\n3,4' },
        { ',\n1,2' }, { '1,2\n3,', { missing = -1 } }, { '1,\n3,4', { missing = 0 / 0 } },
        { '1,2\n3,4', { header = true } }, { 'a,b\n1,2', { header = false } },
        { '1,a\n2,3', { header = true } }, { '1;2\n3;4' }, { '1;2\n3;4', { separator = ';' } },
        { '1\t2\n3\t4', { separator = '\t' } }, { '1 2\n3 4', { separator = ' ' } },
        { '"1","2"' }, { '"a","b"\n1,2' }, { '"a ""b""",c\n1,2' }, { '"a,b",c\n1,2' },
        { '"a\nb",c\n1,2' }, { '"a\nb\n\nc",c\n1,x' }, { '"a\n"b",c\n1,2' }, { '"a' }, { '"a\nb' },
        { '"1"2,3' }, { '"1" ,3' }, { ' "1" , "3" ' }, { '"1"\t"2"', { separator = '\t' } },
        { '"1"  "2"', { separator = ' ' } }, { '""' }, { '"",1', { missing = 3 } }, { '""""' },
        { '1,"2\n3",4' }, { '1,2\n3,"4\n"' }, { 'nan,inf,-inf' }, { '1e3,0x10,1e400' },
          { '+5,-0,.5' },
        { '16777216,16777217' }, { '16777217' }, { '16777217', { dtype = 'f32' } },
        { '9007199254740993', { dtype = 'i64' } }, { '9223372036854775807', { dtype = 'i64' } },
        { '9223372036854775808', { dtype = 'i64' } }, { '-9223372036854775808', { dtype = 'i64' } },
        { '-9223372036854775809', { dtype = 'i64' } }, { '1.5', { dtype = 'i64' } },
        { '9007199254740992.0', { dtype = 'i64' } }, { '9007199254740994.0', { dtype = 'i64' } },
        { '0', { dtype = 'u8' } }, { '255', { dtype = 'u8' } }, { '256', { dtype = 'u8' } },
        { '-1', { dtype = 'u8' } }, { '1.5', { dtype = 'u8' } }, { '127,-128', { dtype = 'i8' } },
        { '128', { dtype = 'i8' } }, { '-129', { dtype = 'i8' } }, { '2147483647',
          { dtype = 'i32' } },
        { '2147483648', { dtype = 'i32' } }, { '-2147483648', { dtype = 'i32' } },
        { '-2147483649', { dtype = 'i32' } }, { '1', { dtype = 'zork' } }, { '0.1',
          { dtype = 'f64' } },
        { '1e39' }, { '1e39', { dtype = 'f64' } }, { '1', { separator = '' } }, { '1',
          { separator = ',,' } },
        { '1', { separator = '"' } }, { '1', { separator = '5' } }, { '1', { separator = '\n' } },
        { ',1', { missing = 0.5, dtype = 'i64' } }, { ',1', { missing = 7, dtype = 'i64' } },
        { ('1,'):rep(1500) .. '1' } } do
      local name = ('%d %q %s'):format(i, case[1]:sub(1, 40), case[2] and told.value(case[2]) or '')
      read(name:gsub('\\\n', '\\n'), case[1], data.csv, case[2])
    end
    check 'csv'
  end)

  it('of lines in any dialect is the table it was written from', function()
    for seed = 1, 120 do
      random = seeded(seed)
      local columns, lines = random(4), random(5)
      local separator = ({ ',', ';', '\t', ' ', '|' })[random(5)]
      local ending, header = ({ '\n', '\r\n' })[random(2)], random(2) == 1
      local text, wanted, names = random(4) == 1 and '\239\187\191' or '', {}, nil
      -- blanks beside a separator that is one would be fields
      local function blank() return separator ~= ' ' and separator ~= '\t' and random(4) == 1
        and (' '):rep(random(2)) or '' end
      local function field(value, quoted)
        if quoted then value = '"' .. value:gsub('"', '""') .. '"' end
        return blank() .. value .. blank()
      end
      if header then
        local list = {}
        names = {}
        for c = 1, columns do
          names[c] = ({ 'a', 'b c', 'say "x"', 'p,q;r|s', 'two\nlines', 'tab\there' })[random(6)]
          list[c] = field(names[c], names[c] ~= 'a' or random(2) == 1)
        end
        text = text .. table.concat(list, separator) .. ending
      end
      for r = 1, lines do
        local list = {}
        wanted[r] = {}
        for c = 1, columns do
          local value = ({ '0', '-7', '1.5', '2e3', '16777216', '0.25' })[random(6)]
          wanted[r][c] = tonumber(value)
          list[c] = field(value, random(3) == 1)
        end
        text = text .. table.concat(list, separator) .. ((r < lines or random(2) == 1) and ending
          or '')
        if random(5) == 1 and r < lines then text = text .. ending end -- an empty line
      end
      write(text)
      local x, found = data.csv(path, { separator = separator, header = header })
      assert.same(wanted, x:tolist(), ('seed %d: %q'):format(seed, text))
      assert.same(names, found, ('seed %d: %q'):format(seed, text))
    end
  end)
end)

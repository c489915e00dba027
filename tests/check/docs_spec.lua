-- SPDX-License-Identifier: MIT
-- The documentation as web pages: every link and anchor leads somewhere, nothing is fetched from
-- elsewhere, and what search finds is there.

local folders = dofile 'tests/lua/store/folder.lua'

describe('web pages of the documentation', function()
  local folder, files = nil, {}
  local has = os.execute 'command -v cmark-gfm >/dev/null' == 0

  setup(function()
    folder = folders.new()
    if not has then return end
    local text, status = folders.run(('build/ridge docs --markdown %s/md && '
      .. 'luajit scripts/site.lua %s/md %s/out'):format(folder, folder, folder))
    assert.equal(0, status, text)
    local pipe = io.popen(('cd %s/out && find . -name "*.html"'):format(folder))
    for path in pipe:lines() do files[path:sub(3)] = folders.get(folder .. '/out/' .. path) end
    pipe:close()
  end)
  teardown(function() folders.remove(folder) end)

  -- A page or an anchor of it is there.
  local function there(from, link)
    local path, id = link:match '^([^#]*)#?(.*)$'
    local target = from
    if path ~= '' then
      target = (from:match '^(.*/)' or '') .. path
      while target:find '[^/]+/%.%./' do target = target:gsub('[^/]+/%.%./', '', 1) end
    end
    if not target:find '%.html$' then return true end
    return files[target] and (id == '' or files[target]:find(('id="%s"'):format(id), 1, true))
  end

  it('lead to each other', function()
    if not has then return pending 'cmark-gfm is not here' end
    local n, links = 0, 0
    for path, text in pairs(files) do
      n = n + 1
      for link in text:gmatch 'href="([^"]*)"' do
        links = links + 1
        assert.is_truthy(there(path, link), path .. ' -> ' .. link)
      end
      assert.is_nil(text:find 'https?://[^<]*"', path)
      assert.is_nil(text:gsub('<var>.-</var>', ''):find('‹%d'), path)
      local _, pages = text:gsub('aria%-current', '')
      assert.equal(path == 'index.html' and 0 or 1, pages, path)
    end
    assert.is_true(n > 50 and links > 50 * n)
    assert.is_truthy(files['tutorial/first-hour.html']:find('<b>$ ridge doctor</b>', 1, true))
    assert.is_truthy(files['reference/ridge.nn.html']:find('id="ridge.nn.linear"', 1, true))
  end)

  it('are all in the index of the search, each place by its anchor', function()
    if not has then return pending 'cmark-gfm is not here' end
    local index, pages = folders.get(folder .. '/out/index.js'), {}
    for link in index:gmatch '\n%["([^"]+)"' do
      assert.is_truthy(there('index.html', link), link)
      pages[link:match '^[^#]+'] = true
    end
    for path in pairs(files) do assert.is_true(path == 'index.html' or pages[path], path) end
    assert.matches('"tutorial/first%-hour.html#ask%-the%-machine","The first hour"', index)
    assert.matches('hypervisor', index)
  end)

  it('have anchors of their own where headings are alike', function()
    if not has then return pending 'cmark-gfm is not here' end
    os.execute(('mkdir -p %s/two/why'):format(folder))
    folders.put(folder .. '/two/why/a.md', '# A\n\nx\n\n## Same\n\none\n\n## Same\n\ntwo\n')
    local command = ('luajit scripts/site.lua %s/two %s/two'):format(folder, folder)
    local text, status = folders.run(command)
    assert.equal(0, status, text)
    text = folders.get(folder .. '/two/why/a.html')
    assert.matches('id="same".*id="same%-2"', text)
    assert.matches('"why/a.html#same".*"why/a.html#same%-2"',
      folders.get(folder .. '/two/index.js'))
  end)

  it('are not made without a converter, and that is said', function()
    local text, status = folders.run(('PATH=%s luajit scripts/site.lua a b'):format(folder)
      :gsub('luajit', '/usr/bin/luajit', 1))
    assert.equal(1, status)
    assert.equal('make docs: cmark-gfm is missing: apt-get install cmark-gfm\n', text)
  end)
end)

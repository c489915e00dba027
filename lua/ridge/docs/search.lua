-- SPDX-License-Identifier: MIT
--- Which pages some words mean: by name, then by title, then by what is in them.

local near = require 'ridge.near'
local pages = require 'ridge.docs.pages'

local M = {}

local function words_of(text)
  local list = {}
  for word in text:lower():gmatch '%S+' do list[#list + 1] = word end
  return list
end

local function holds(text, words)
  text = text:lower()
  for _, word in ipairs(words) do
    if not text:find(word, 1, true) then return false end
  end
  return true
end

-- Is a heading called by a word: 'linear' of 'ridge.nn.Linear', 'sweep' of 'ridge sweep'?
local function is_called(title, word)
  title = title:lower()
  return title == word or title == 'ridge ' .. word
    or title:match '^ridge[%w_.]*%.([%w_]+)$' == word
end

--- The page or section that is called so.
---@param list ridge.docs.Page[]
---@param name string 'howto/grade-d', 'grade-d', 'how to'; a heading: 'ridge.randn', 'ridge sweep',
---  or its last part, where no other heading has that
---@return ridge.docs.Page|nil page
---@return table|nil section where a heading was meant
function M.named(list, name)
  local small = name:lower():gsub('%.md$', ''):gsub('^docs/', ''):gsub('%s+$', '')
  local dashed = small:gsub('%s+', '-')
  for _, page in ipairs(list) do
    local own = page.name:lower()
    if own == small or own:match '/(.*)$' == dashed or page.title:lower() == small then
      return page
    end
  end
  local is_word, found = not small:find '[%s.]', {}
  for _, page in ipairs(list) do
    for _, section in ipairs(pages.sections(page)) do
      if section.level > 1 and (section.title:lower() == small
          or is_word and is_called(section.title, small)) then
        if not is_word then return page, section end
        found[#found + 1] = { page, section }
      end
    end
  end
  if #found == 1 then return unpack(found[1]) end -- of several all are listed
  return nil
end

-- The line that holds the most of the words, as the reader will see it there.
local function line_with(text, words)
  local best, most = '', -1
  for line in text:gmatch '[^\n]+' do
    local n, small = 0, line:lower()
    for _, word in ipairs(words) do if small:find(word, 1, true) then n = n + 1 end end
    if n > most then best, most = line, n end
  end
  return (best:gsub('^[%s|#*-]+', ''):gsub('[`|]', ''):gsub('%s+', ' '))
end

---@class ridge.docs.Found
---@field page ridge.docs.Page
---@field section table|nil title, text; nil: the page's own title holds the words
---@field line string what stands there

--- All places that hold every word: headings that are called so, titles of pages, other headings,
--- text.
---@param list ridge.docs.Page[]
---@param text string words
---@return ridge.docs.Found[] found
function M.find(list, text)
  local words = words_of(text)
  local titles, exact, headings, texts = {}, {}, {}, {}
  local whole = table.concat(words, ' ')
  if #words == 0 then return {} end
  for _, page in ipairs(list) do
    if holds(page.title .. ' ' .. page.name, words) then
      titles[#titles + 1] = { page = page, line = page.about }
    else
      for _, section in ipairs(pages.sections(page)) do
        local to = section.level > 1 and holds(section.title, words)
          and (is_called(section.title, whole) and exact or headings)
          or holds(section.title .. '\n' .. section.text, words) and texts
        if to then
          to[#to + 1] = { page = page, section = section, line = line_with(section.text, words) }
        end
      end
    end
  end
  for _, more in ipairs { titles, headings, texts } do
    for _, each in ipairs(more) do exact[#exact + 1] = each end
  end
  return exact
end

--- Names near a word that nothing holds.
---@param list ridge.docs.Page[]
---@param word string
---@return string hint " (did you mean 'grade-d'?)", or ''
function M.hint(list, word)
  local names = {}
  for _, page in ipairs(list) do
    names[#names + 1] = page.name:match '/(.*)$'
    for title in page.title:lower():gmatch '[%w_.]+' do
      if #title > 3 then names[#names + 1] = title end
    end
    for _, section in ipairs(pages.sections(page)) do
      if section.level > 1 and not section.title:find ' ' then
        names[#names + 1] = section.title
        names[#names + 1] = section.title:match '%.([%w_]+)$' -- who says no 'ridge.' may err, too
      end
    end
  end
  return near.hint(word, names)
end

return M

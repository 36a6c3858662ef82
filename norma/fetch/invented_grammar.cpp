#include "norma/fetch/invented_grammar.h"

#include <array>

namespace norma::fetch {

namespace {

constexpr auto kRules = std::to_array<GrammarRule>({
    // Words.
    {"name_f", "Anna|Clara|Edith|Flora|Hilda|Ida|Martha|Nora|Olive|Ruth|Sarah|Vera"},
    {"name_m", "Arthur|Basil|Conrad|David|Edgar|Felix|Henry|Jonas|Martin|Oscar|Peter|Walter"},
    {"town_name",
     "Ashford|Brookfield|Coldwater|Dunmore|Eastwick|Fairhaven|Greystone|Highbridge|Kingsport|"
     "Longmeadow|Millbrook|Northgate|Oakham|Redcliff|Silverton|Westbury"},
    {"pet_kind", "dog|cat|goat|horse|raven|donkey|goose|pony"},
    {"pet_name", "Amber|Biscuit|Captain|Daisy|Button|Pepper|Smoke|Thunder|Clover|Major"},
    {"thing_kind",
     "brass key|silver coin|old map|red lantern|sealed letter|glass bottle|green book|copper bell|"
     "wooden flute|small clock|blue ribbon|iron ring|white shell|leather purse"},
    {"box_kind",
     "oak chest|kitchen drawer|tin box|linen bag|hollow tree|cupboard|basket by the door|"
     "garden shed|pocket of the grey coat|jar on the shelf"},
    {"season_name", "spring|summer|autumn|winter"},
    {"old", "old|young|quiet|tall|cheerful|weary|clever|humble|patient|proud|gentle|stubborn"},
    {"fine", "fine|grey|bright|long|cold|warm|narrow|broken|heavy|simple|strange|pale|dark|empty"},
    {"place", "harbour|market|mill|church|bridge|inn|forest|river|hill|orchard|station|school"},
    {"at_place", "at the {place}|near the {place}|behind the {place}|in front of the {place}"},
    {"when",
     "in the morning|in the evening|before breakfast|after supper|at noon|at midnight|on Sunday|"
     "on Monday|at dawn|the next day|that same night|a week later"},
    {"how", "slowly|quickly|quietly|gladly|carefully|without a word|with a smile|in silence|again"},
    {"went", "went|walked|hurried|came|rode|returned|ran|wandered"},
    {"saw", "saw|noticed|found|met|heard|remembered|passed"},
    {"said", "said|answered|replied|whispered|called|added"},
    {"food", "bread|soup|cheese|apple cake|fish|porridge|honey|roast chicken|plums|barley"},
    {"goods", "apples|pears|eggs|candles|nails|fish|loaves|onions|buttons|oranges|turnips|cups"},
    {"person", "traveller|stranger|farmer|widow|soldier|teacher|child|merchant|neighbour|captain"},
    {"weather",
     "the rain fell on the roofs|the wind blew from the {side}|snow lay on the {fine} fields|"
     "the sun stood over the {place}|a {fine} fog came up from the river|the clouds were low and "
     "{fine}|the moon rose behind the {place}|the air smelled of {food}"},
    {"side", "north|south|east|west|sea|mountains"},
    {"feeling", "happy|afraid|tired|hungry|curious|angry|sad|calm|surprised|lonely"},
    {"reason",
     "because {he} was {feeling}|because {friend} was far away|although it was late|since {fhe} "
     "had "
     "asked for it|for {he} loved the {fine} {place}|while {weather}"},

    // Titles and first paragraphs: who is who. These facts hold in every story.
    {"title",
     "The {Thing}|{Hero} and {Friend}|{Season} in {Town}|The {Trade} of {Town}|A {Fine} Journey|"
     "The Road to {Ftown}|{Petname} the {Pet}|What {Hero} Found"},
    {"intro",
     "{Hero} was {a trade} in {town}.|{Hero} lived in {town}, and {he} {work}.|In {town} there "
     "lived {a old} {trade} whose name was {hero}.|{His} {pet} was called {petname}.|{Hero} had {a "
     "pet} called {petname}, and {he} took it everywhere.|{Hero} had a friend in {ftown}, {a "
     "ftrade} called {friend}.|{Friend} was {a ftrade} and came from {ftown}.|Everyone in {town} "
     "knew {hero}, {reason}.|It was {season}, and {weather}.|That {season} {hero} was {feeling}.|"
     "{Hero} {work}, but {his} friend {friend} {fwork}.|{When} {hero} put the {thing} into the "
     "{box}."},

    // The middle of a story.
    {"journey",
     "{When} {hero} {went} to the {place}.|{Hero} {went} to {ftown} {how}, {reason}.|On the road "
     "{he} {saw} {a old} {person}.|The {old} {person} {said} nothing and {went} on.|{He} {went} "
     "past the {place}, where {does}.|{Petname} the {pet} ran ahead and waited {at_place}.|The way "
     "from {town} to {ftown} was {fine} and {fine}.|{Weather}, and {hero} {went} {how}.|{At_place} "
     "{he} {saw} {friend}, the {ftrade} from {ftown}.|After {n1} miles {he} rested {at_place}.|"
     "\"How far is it to {ftown}?\" asked {hero}. \"It is {n1} miles,\" {said} the {person}."},
    {"work",
     "{When} {hero} {work} as always.|{He} worked {how} until {friend} came.|{Hero} {work}, for "
     "{he} was {a trade}.|{Friend} was {a ftrade}, and so {fhe} {fwork}.|\"{A trade} must be "
     "patient,\" {said} {hero}.|\"I am only {a ftrade},\" {said} {friend} {how}.|{Does}, and "
     "{does}."
     "|The {fine} work made {him} {feeling}.|{At_place} {does}.|In {season} {a trade} has much to "
     "do, and {hero} was {feeling}."},
    {"market",
     "{Hero} bought {n1} {goods} and {friend} bought {n2}; together they had {sum}.|{He} had {sum} "
     "{goods} and gave {n1} of them to {friend}, so {n2} were left.|There were {n1} {goods} in one "
     "basket and {n2} in the other, {sum} in all.|\"{N1} and {n2} make {sum},\" {said} {friend} "
     "{how}.|The {person} asked {n1} coins for the {food}, and {hero} paid {how}.|{At_place} one "
     "could buy {goods}, {food} and {fine} {goods}.|{Friend} wanted {food}, but {hero} wanted "
     "{food}.|The {old} {person} sold {goods} {at_place}.|{When} the market was full, and {does}."},
    {"weather_talk",
     "{When} {weather}.|{Weather}, and {weather}.|It was {a fine} day in {season}, and {does}.|"
     "They say that {does}.|The {season} was {fine} that year.|{Hero} looked at the sky and was "
     "{feeling}."
     "|\"It will be {a fine} {season},\" {said} {friend}.|{Petname} slept {at_place} while "
     "{weather}."},
    {"talk",
     "\"Where is the {thing}?\" asked {friend}. \"It is in the {box},\" {said} {hero}.|\"Have you "
     "seen {petname}?\" asked {hero}. \"Your {pet} is {at_place},\" {said} {friend}.|\"Why are you "
     "{feeling}?\" asked {friend}. {Hero} did not answer.|\"I {saw} {a old} {person} {at_place},\" "
     "{said} {friend}.|\"Do you still live in {town}?\" asked {friend}. \"Yes,\" {said} {hero}, "
     "\"I "
     "live in {town}.\"|\"Are you {a trade}?\" asked the {person}. \"I am,\" {said} {hero}.|\"Come "
     "to {ftown} {when},\" {said} {friend}, \"and bring the {thing}.\"|{Friend} laughed {how}, and "
     "{hero} was {feeling}.|\"I know that {does},\" {said} {hero}.|They spoke of {food} and of the "
     "{place} until it was late."},
    {"search",
     "{When} {hero} looked for the {thing}.|The {thing} was still in the {box}, where {he} had put "
     "it.|{He} opened the {box} {how} and took out the {thing}.|Nobody but {friend} knew about the "
     "{box}.|\"The {thing} is yours,\" {said} {hero}, and {friend} was {feeling}.|{Petname} sat "
     "down beside the {box}.|{A old} {person} had asked about the {thing} {when}.|The {thing} was "
     "{fine} and very {fine}."},

    // Last paragraphs.
    {"ending",
     "{When} {hero} {went} home to {town}.|{Friend} {went} back to {ftown} {how}.|The {thing} "
     "stayed in the {box}.|{Hero} was {feeling} no more.|{Petname} the {pet} fell asleep "
     "{at_place}.|So the {season} ended, and {weather}.|From that day on {hero} and {friend} met "
     "{at_place} every {season}.|And {does}, as always in {town}."},

    // Clauses that agree: subjects and verbs that take a plain s.
    {"subject",
     "sailor|baker|girl|boy|horse|bird|bell|ship|miller|river|dog|farmer|door|lamp|stranger|owl"},
    {"verb",
     "sing|sleep|wait|turn|work|rest|dream|return|wander|appear|listen|remain|shine|tremble|fall"},
    {"adverbial",
     "in the {fine} light|near the {place}|all night|every {season}|under the {fine} sky|by the "
     "{place}|far from home|in the {side}"},
});

}  // namespace

std::string_view alternatives_of(std::string_view key) {
  for (const GrammarRule& rule : kRules) {
    if (rule.key == key) return rule.alternatives;
  }
  return {};
}

}  // namespace norma::fetch

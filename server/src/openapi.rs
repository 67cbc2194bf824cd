//! The OpenAPI document of version 1, made from the handlers and the shapes; `server/openapi.json` is its text.

use axum::body::Body;
use axum::http::Response;
use utoipa::openapi::path::{HttpMethod, PathItem, PathsBuilder};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, ResponseBuilder,
};
use utoipa::{PartialSchema as _, Path, ToSchema as _};

use crate::answer::content;
use crate::api::{health, plain, search, sessions, shapes, stores};
use crate::{backend, page, problem, session};

/// Adds a handler; every answer that is not listed is a problem.
fn with<P: Path>(paths: PathsBuilder) -> PathsBuilder {
    let mut operation = P::operation();
    let of_problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("ProblemBody"))).build();
    let problem = ResponseBuilder::new().description("A problem").content(problem::MEDIA_TYPE, of_problem);
    operation.responses.responses.insert("default".to_owned(), problem.build().into());
    let methods: Vec<HttpMethod> = P::methods();
    paths.path(P::path(), PathItem::from_http_methods(methods, operation))
}

macro_rules! paths {
    ($($handler:path),+ $(,)?) => {{
        let paths = PathsBuilder::new();
        $(let paths = with::<$handler>(paths);)+
        paths.build()
    }};
}

macro_rules! schemas {
    ($($shape:ty),+ $(,)?) => {{
        let schemas = ComponentsBuilder::new();
        $(let schemas = schemas.schema(<$shape>::name(), <$shape>::schema());)+
        schemas.build()
    }};
}

fn whole() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Boxwork")
        .version("1")
        .description(Some("Search for similar objects, and sessions of feedback."))
        .build();
    let paths = paths![
        page::__path_index,
        page::__path_asset,
        page::__path_about,
        plain::__path_plain,
        health::__path_lives,
        health::__path_ready,
        health::__path_figures,
        __path_document,
        stores::__path_list,
        stores::__path_one,
        stores::__path_reload,
        stores::__path_objects,
        stores::__path_one_object,
        stores::__path_thumbnail,
        stores::__path_image,
        search::__path_search,
        sessions::__path_create,
        sessions::__path_get,
        sessions::__path_end,
        sessions::__path_change,
        sessions::__path_mark,
        sessions::__path_round,
        sessions::__path_undo,
        sessions::__path_redo,
        sessions::__path_ranking,
        sessions::__path_log,
        sessions::__path_why,
    ];
    let schemas = schemas![
        problem::ProblemBody,
        problem::Fault,
        backend::Object,
        backend::Class,
        backend::Summary,
        backend::Listing,
        session::Unmarked,
        shapes::Bounds,
        shapes::Store,
        shapes::Stores,
        shapes::OneObject,
        shapes::Asked,
        shapes::Hit,
        shapes::Hits,
        shapes::Share,
        shapes::InRound,
        shapes::Round,
        shapes::MarkInForce,
        shapes::Replayed,
        shapes::State,
        shapes::InRanking,
        shapes::Ranking,
        shapes::MarkShare,
        shapes::Near,
        shapes::Why,
        shapes::Health,
    ];
    OpenApiBuilder::new().info(info).paths(paths).components(Some(schemas)).build()
}

/// The document as indented JSON, with a line's end.
pub fn text() -> String {
    let mut text = whole().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, content_type = "application/json")))]
pub async fn document() -> Response<Body> {
    content("application/json", text())
}
